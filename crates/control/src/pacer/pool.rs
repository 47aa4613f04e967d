//! Packets of all flows of a pacer in one piece of memory, each flow's in a linked list.

/// No slot.
const NONE: usize = usize::MAX;

/// Slots for packets, taken at the start.
#[derive(Debug)]
pub(super) struct Pool<T> {
    slots: Vec<Slot<T>>,
    /// First of the free slots, which are linked by `next`.
    free: usize,
}

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    previous: usize,
    next: usize,
}

/// The packets of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: usize,
    last: usize,
    len: usize,
}

impl List {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, len: 0 };

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T> Pool<T> {
    pub(super) fn new(slots: usize) -> Self {
        let slot = |next| Slot { value: None, previous: NONE, next };
        let slots = (1..=slots).map(|next| slot(if next == slots { NONE } else { next })).collect();
        Self { slots, free: 0 }
    }

    /// The first packet of a list.
    pub(super) fn first(&self, list: &List) -> Option<&T> {
        self.slots.get(list.first)?.value.as_ref()
    }

    /// Appends a packet. A slot must be free.
    pub(super) fn push(&mut self, list: &mut List, value: T) {
        let at = self.free;
        let slot = &mut self.slots[at];
        self.free = slot.next;
        *slot = Slot { value: Some(value), previous: list.last, next: NONE };
        match list.last {
            NONE => list.first = at,
            last => self.slots[last].next = at,
        }
        list.last = at;
        list.len += 1;
    }

    /// Removes the first packet.
    pub(super) fn pop_first(&mut self, list: &mut List) -> Option<T> {
        self.remove(list, list.first)
    }

    /// Removes the last packet.
    pub(super) fn pop_last(&mut self, list: &mut List) -> Option<T> {
        self.remove(list, list.last)
    }

    fn remove(&mut self, list: &mut List, at: usize) -> Option<T> {
        let slot = self.slots.get_mut(at)?;
        let value = slot.value.take()?;
        let (previous, next) = (slot.previous, std::mem::replace(&mut slot.next, self.free));
        self.free = at;
        match previous {
            NONE => list.first = next,
            previous => self.slots[previous].next = next,
        }
        match next {
            NONE => list.last = previous,
            next => self.slots[next].previous = previous,
        }
        list.len -= 1;
        Some(value)
    }
}
