//! A sorted list of the clients' tags: finding a client's place takes O(n) comparisons.
//!
//! The paper of GR3 compares itself with such a list. It decides as the tournament does, and is as
//! slow as in the paper.

use humpyard_core::id::{Id, IdVec};
use humpyard_core::policy::Ties;
use humpyard_core::steps;

use super::tag::{PackedTag, Tag};

/// The value of `next` for the last member.
const END: u32 = u32::MAX;
/// The value of `next` for an id without a tag.
const ABSENT: u32 = u32::MAX - 1;

/// The state of one id.
#[derive(Clone, Copy, Debug)]
struct Link {
    tag: PackedTag,
    /// The member after it.
    next: u32,
}

/// Ids below a limit, some of which have a tag.
///
/// The first is found and removed in O(1); other operations take O(n) in the members. Nothing
/// allocates. An id takes 16 bytes.
#[derive(Debug)]
pub struct SortedList<I> {
    first: u32,
    links: IdVec<I, Link>,
    ties: Ties,
}

impl<I: Id> SortedList<I> {
    /// Creates a list for ids below `limit`, none of which has a tag.
    pub(super) fn new(limit: usize, ties: Ties) -> Self {
        let links = IdVec::from_fn(limit, |_| Link { tag: PackedTag::default(), next: ABSENT });
        Self { first: END, links, ties }
    }

    /// Returns the least tag, and the id that has it.
    pub(super) fn first(&self) -> Option<(Tag, I)> {
        (self.first != END).then(|| {
            let id = I::from_index(self.first as usize);
            (self.links[id].tag.tag(), id)
        })
    }

    /// Returns the tag of this id.
    pub(super) fn tag(&self, id: I) -> Option<Tag> {
        let link = self.links[id];
        (link.next != ABSENT).then(|| link.tag.tag())
    }

    /// Sets the tag of the id.
    pub(super) fn set(&mut self, id: I, tag: Tag) {
        self.remove(id);
        let tag = PackedTag::new(tag);
        let place = (tag.tag(), id);
        let (before, next) = self.seek(|list, member| !list.is_before(member, place));
        self.links[id] = Link { tag, next };
        self.follow(before, id.index() as u32);
    }

    /// Removes the tag of the id, if it has one.
    pub(super) fn remove(&mut self, id: I) {
        let next = self.links[id].next;
        if next != ABSENT {
            let (before, _) = self.seek(|_, member| member == id);
            self.follow(before, next);
            self.links[id].next = ABSENT;
        }
    }

    /// Returns the first member for which `wanted` is true, or the end, and the member before it.
    fn seek(&self, wanted: impl Fn(&Self, I) -> bool) -> (Option<I>, u32) {
        let (mut before, mut at) = (None, self.first);
        while at != END {
            steps::taken(1);
            let member = I::from_index(at as usize);
            if wanted(self, member) {
                break;
            }
            (before, at) = (Some(member), self.links[member].next);
        }
        (before, at)
    }

    /// Whether the member comes before a place.
    fn is_before(&self, member: I, (tag, id): (Tag, I)) -> bool {
        let own = self.links[member].tag.tag();
        match self.ties {
            Ties::Lowest => (own, member) < (tag, id),
            Ties::Highest => own < tag || (own == tag && member > id),
        }
    }

    /// Links `next` after the member `before`, or makes it the first.
    fn follow(&mut self, before: Option<I>, next: u32) {
        match before {
            Some(before) => self.links[before].next = next,
            None => self.first = next,
        }
    }
}
