//! Memory asked for ahead of its use.

/// Asks the processor to fetch what is needed soon, so that the memory of a large network is on its way while other
/// events are handled. A hint: it changes nothing but time, and processors that cannot be asked are not.
#[inline(always)]
pub fn fetch_ahead<T>(items: &[T]) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 64;
        let range = items.as_ptr_range();
        let mut line = range.start.cast::<i8>();
        while line < range.end.cast::<i8>() {
            // SAFETY: a prefetch reads nothing that the program sees and cannot fault, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
            line = line.wrapping_add(LINE);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = items;
}
