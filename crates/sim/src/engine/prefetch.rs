//! Memory prefetch.

/// Hints to the processor that `item` is needed soon, so that its memory arrives while other events are handled. The
/// hint affects time alone; on processors other than x86-64 it does nothing.
#[inline(always)]
pub fn prefetch<T: ?Sized>(item: &T) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 64;
        let start = std::ptr::from_ref(item).cast::<i8>();
        for offset in (0..size_of_val(item)).step_by(LINE) {
            // SAFETY: a prefetch has no effect that the program can observe and cannot fault, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = item;
}
