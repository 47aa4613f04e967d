//! Memory asked for ahead of its use.

/// Asks the processor to fetch what is needed soon, so that the memory of a large network is on its way while other
/// events are handled. A hint: it changes nothing but time, and processors that cannot be asked are not.
#[inline(always)]
pub fn fetch_ahead<T: ?Sized>(item: &T) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 64;
        let start = std::ptr::from_ref(item).cast::<i8>();
        for offset in (0..size_of_val(item)).step_by(LINE) {
            // SAFETY: a prefetch reads nothing that the program sees and cannot fault, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = item;
}
