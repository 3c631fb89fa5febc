//! Dense index newtypes, and the vector they index.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

use crate::steps;

/// A small index that names one kind of thing; ids of one kind are dense from 0.
pub trait Id: Copy + Eq + Ord + fmt::Debug {
    /// The id with this index.
    ///
    /// # Panics
    /// If the index does not fit the id's integer.
    fn from_index(index: usize) -> Self;
    /// The index of this id, from 0.
    fn index(self) -> usize;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($integer:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub struct $name(pub $integer);

        impl Id for $name {
            #[inline]
            fn from_index(index: usize) -> Self {
                assert!(index <= <$integer>::MAX as usize, "{} out of range: {index}", stringify!($name));
                Self(index as $integer)
            }
            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// A core: either simulated, or a real one with one worker thread.
    CoreId(u16)
}
id! {
    /// A client: a flow, connection, service or class that has a weight and a backlog.
    ClientId(u32)
}
id! {
    /// A flow: the packets of one 5-tuple. Reused after the flow has ended.
    FlowId(u32)
}
id! {
    /// A service, which processes packets.
    ServiceId(u16)
}
id! {
    /// A processing element: consecutive cores that are its contexts and take turns computing.
    ElementId(u16)
}
id! {
    /// A chain of services that packets go through one after the other.
    ChainId(u16)
}
id! {
    /// A place in the packet slab, held by one packet from its arrival to its completion.
    Slot(u32)
}
id! {
    /// A place in the exit buffer, held by a packet that waits for earlier ones of its flow.
    ExitSlot(u32)
}
id! {
    /// A queue of the mechanism: one sharing policy, and the cores that pull from it.
    QueueId(u16)
}

/// A vector indexed by one kind of id.
#[derive(Clone, PartialEq, Eq)]
pub struct IdVec<I, T> {
    items: Vec<T>,
    id: PhantomData<I>,
}

impl<I: Id, T> IdVec<I, T> {
    /// An empty vector.
    pub const fn new() -> Self {
        Self { items: Vec::new(), id: PhantomData }
    }

    /// A vector of `length` items, each made from its id.
    pub fn from_fn(length: usize, make: impl FnMut(I) -> T) -> Self {
        Self { items: (0..length).map(I::from_index).map(make).collect(), id: PhantomData }
    }

    /// Appends an item and returns its id.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::from_index(self.items.len() - 1)
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the item. `None`: the id is beyond the end.
    pub fn get(&self, id: I) -> Option<&T> {
        steps::taken(1);
        self.items.get(id.index())
    }

    /// All ids, ascending.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::from_index)
    }

    /// The items, by ascending id.
    pub fn iter(&self) -> core::slice::Iter<'_, T> {
        steps::taken(self.items.len());
        self.items.iter()
    }

    /// The items, by ascending id, to change.
    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, T> {
        steps::taken(self.items.len());
        self.items.iter_mut()
    }

    /// The items as a slice, by ascending id.
    pub fn as_slice(&self) -> &[T] {
        steps::taken(self.items.len());
        &self.items
    }
}

impl<I: Id, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Id, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<It: IntoIterator<Item = T>>(items: It) -> Self {
        Self { items: items.into_iter().collect(), id: PhantomData }
    }
}

impl<I, T: fmt::Debug> fmt::Debug for IdVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.fmt(f)
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        steps::taken(1);
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        steps::taken(1);
        &mut self.items[id.index()]
    }
}

impl<I: Id, T> IntoIterator for IdVec<I, T> {
    type Item = T;
    type IntoIter = alloc::vec::IntoIter<T>;
    fn into_iter(self) -> Self::IntoIter {
        steps::taken(self.items.len());
        self.items.into_iter()
    }
}

impl<'a, I: Id, T> IntoIterator for &'a IdVec<I, T> {
    type Item = &'a T;
    type IntoIter = core::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
