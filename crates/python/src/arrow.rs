//! The Arrow C data and stream interface, which hands columns to any library that knows it (Polars, DuckDB, pandas)
//! without a copy: <https://arrow.apache.org/docs/format/CDataInterface.html> and `CStreamInterface.html`.
//!
//! An exported array keeps its batch alive by a reference of its own, and the consumer releases it by the callback, on any
//! thread. Texts are `utf8view` arrays, the form that Polars computes with.
#![expect(unsafe_code, reason = "the interface is structs with pointers and callbacks")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use fairhop_sim::output::columns::{Column, Table, Values};

/// `struct ArrowSchema`.
#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray`.
#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

/// `struct ArrowArrayStream`.
#[repr(C)]
pub(crate) struct Stream {
    get_schema: unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int,
    get_next: unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int,
    get_last_error: unsafe extern "C" fn(*mut Stream) -> *const c_char,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

/// The name of a capsule with a [`Stream`].
pub(crate) const STREAM: &CStr = c"arrow_array_stream";

/// Nullable: `ARROW_FLAG_NULLABLE`.
const NULLABLE: i64 = 2;

/// Longest text that a view holds itself, in bytes.
const INLINE: usize = 12;

/// The values of a column in Arrow's form.
enum Data {
    Integer(Vec<i64>),
    Unsigned(Vec<u64>),
    Real(Vec<f64>),
    /// Views of 16 bytes, texts that are longer than [`INLINE`], and the size of these.
    Text(Vec<u128>, Vec<u8>, [i64; 1]),
    /// A bit for each value, least significant first.
    Truth(Vec<u8>),
}

struct Buffers {
    data: Data,
    /// A bit for each value that exists, and the number of those that do not.
    validity: Option<(Vec<u8>, i64)>,
}

/// Columns of one run.
pub(crate) struct Batch {
    rows: usize,
    columns: Vec<Buffers>,
}

/// Names and types of columns.
pub(crate) struct Form {
    /// Name, format string and flags.
    columns: Vec<(CString, &'static CStr, i64)>,
}

impl Form {
    pub(crate) fn of(table: &Table) -> Self {
        let form = |column: &Column| {
            let format = match column.values {
                Values::Integer(_) => c"l",
                Values::Unsigned(_) => c"L",
                Values::Real(_) => c"g",
                Values::Text(_) => c"vu",
                Values::Truth(_) => c"b",
            };
            // No name of a column has a NUL.
            let name = CString::new(column.name.as_bytes()).unwrap_or_default();
            (name, format, if column.present.is_some() { NULLABLE } else { 0 })
        };
        Self { columns: table.columns.iter().map(form).collect() }
    }
}

impl Batch {
    pub(crate) fn of(table: Table) -> Self {
        let rows = table.rows();
        Self { rows, columns: table.columns.into_iter().map(Buffers::of).collect() }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }
}

impl Buffers {
    fn of(column: Column) -> Self {
        let data = match column.values {
            Values::Integer(values) => Data::Integer(values),
            Values::Unsigned(values) => Data::Unsigned(values),
            Values::Real(values) => Data::Real(values),
            Values::Text(values) => views(&values),
            Values::Truth(values) => Data::Truth(bits(&values)),
        };
        let validity = column.present.map(|present| {
            let absent = present.iter().filter(|exists| !**exists).count() as i64;
            (bits(&present), absent)
        });
        Self { data, validity }
    }

    fn pointers(&self) -> Vec<*const c_void> {
        let validity = self.validity.as_ref().map_or(ptr::null(), |(bits, _)| bits.as_ptr().cast());
        match &self.data {
            Data::Integer(values) => vec![validity, values.as_ptr().cast()],
            Data::Unsigned(values) => vec![validity, values.as_ptr().cast()],
            Data::Real(values) => vec![validity, values.as_ptr().cast()],
            Data::Text(views, long, sizes) => {
                vec![validity, views.as_ptr().cast(), long.as_ptr().cast(), sizes.as_ptr().cast()]
            }
            Data::Truth(bits) => vec![validity, bits.as_ptr().cast()],
        }
    }
}

fn bits(values: &[bool]) -> Vec<u8> {
    let byte = |eight: &[bool]| eight.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
    values.chunks(8).map(byte).collect()
}

fn views(texts: &[Arc<str>]) -> Data {
    let mut long: Vec<u8> = Vec::new();
    let mut last: Option<(&Arc<str>, u128)> = None;
    let views = texts
        .iter()
        .map(|text| {
            if let Some((same, view)) = last
                && Arc::ptr_eq(same, text)
            {
                return view;
            }
            let bytes = text.as_bytes();
            let mut view = [0_u8; 16];
            view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
            if bytes.len() <= INLINE {
                view[4..4 + bytes.len()].copy_from_slice(bytes);
            } else {
                view[4..8].copy_from_slice(&bytes[..4]);
                view[12..].copy_from_slice(&(long.len() as u32).to_le_bytes());
                long.extend_from_slice(bytes);
            }
            let view = u128::from_le_bytes(view);
            last = Some((text, view));
            view
        })
        .collect();
    let size = [long.len() as i64];
    Data::Text(views, long, size)
}

struct SchemaOwner {
    _form: Arc<Form>,
    children: Vec<*mut Schema>,
}

/// # Safety
/// `schema` was exported by this module and has not been released.
unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: the owner and its children were leaked by the export, once. A child that was moved has no callback.
    unsafe {
        let owner = Box::from_raw((*schema).private_data.cast::<SchemaOwner>());
        for &child in &owner.children {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*schema).release = None;
    }
}

impl Schema {
    fn new(owner: SchemaOwner, format: &CStr, name: &CStr, flags: i64) -> Self {
        let mut owner = Box::new(owner);
        Self {
            format: format.as_ptr(),
            name: name.as_ptr(),
            metadata: ptr::null(),
            flags,
            n_children: owner.children.len() as i64,
            children: owner.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private_data: Box::into_raw(owner).cast(),
        }
    }

    fn of(form: &Arc<Form>) -> Self {
        let child = |(name, format, flags): &(CString, &CStr, i64)| {
            let owner = SchemaOwner { _form: form.clone(), children: Vec::new() };
            Box::into_raw(Box::new(Self::new(owner, format, name, *flags)))
        };
        let children = form.columns.iter().map(child).collect();
        Self::new(SchemaOwner { _form: form.clone(), children }, c"+s", c"", 0)
    }
}

struct ArrayOwner {
    _batch: Arc<Batch>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

/// # Safety
/// `array` was exported by [`Array::of`] and has not been released.
unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: the owner and its children were leaked by the export, once. A child that was moved has no callback.
    unsafe {
        let owner = Box::from_raw((*array).private_data.cast::<ArrayOwner>());
        for &child in &owner.children {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*array).release = None;
    }
}

impl Array {
    fn new(owner: ArrayOwner, length: usize, null_count: i64) -> Self {
        let mut owner = Box::new(owner);
        Self {
            length: length as i64,
            null_count,
            offset: 0,
            n_buffers: owner.buffers.len() as i64,
            n_children: owner.children.len() as i64,
            buffers: owner.buffers.as_ptr(),
            children: owner.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(owner).cast(),
        }
    }

    fn of(batch: &Arc<Batch>) -> Self {
        let child = |column: &Buffers| {
            let buffers = column.pointers();
            let absent = column.validity.as_ref().map_or(0, |(_, absent)| *absent);
            let owner = ArrayOwner { _batch: batch.clone(), buffers, children: Vec::new() };
            Box::into_raw(Box::new(Self::new(owner, batch.rows, absent)))
        };
        let children = batch.columns.iter().map(child).collect();
        Self::new(ArrayOwner { _batch: batch.clone(), buffers: vec![ptr::null()], children }, batch.rows, 0)
    }

    /// What [`Stream::get_next`] returns after the last batch.
    fn end() -> Self {
        Self {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}

struct StreamOwner {
    form: Arc<Form>,
    batches: Vec<Arc<Batch>>,
    next: usize,
}

/// # Safety
/// `stream` has not been released, and `out` can be written to.
unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        let owner = &*(*stream).private_data.cast::<StreamOwner>();
        out.write(Schema::of(&owner.form));
    }
    0
}

/// # Safety
/// As [`get_schema`].
unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: by the contract of the interface, one thread at a time uses a stream.
    unsafe {
        let owner = &mut *(*stream).private_data.cast::<StreamOwner>();
        let next = owner.batches.get(owner.next);
        owner.next += 1;
        out.write(next.map_or_else(Array::end, Array::of));
    }
    0
}

unsafe extern "C" fn get_last_error(_: *mut Stream) -> *const c_char {
    ptr::null() // nothing fails
}

/// # Safety
/// `stream` has not been released.
unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: the owner was leaked by [`Stream::new`], once.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<StreamOwner>()));
        (*stream).release = None;
    }
}

impl Stream {
    pub(crate) fn new(form: Arc<Form>, batches: Vec<Arc<Batch>>) -> Self {
        let owner = Box::new(StreamOwner { form, batches, next: 0 });
        Self {
            get_schema,
            get_next,
            get_last_error,
            release: Some(release_stream),
            private_data: Box::into_raw(owner).cast(),
        }
    }
}

impl Drop for Stream {
    /// A consumer that took the stream has left no callback.
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it has not been released.
            unsafe { release(self) }
        }
    }
}

// SAFETY: the owner holds only data that may move between threads.
unsafe impl Send for Stream {}
