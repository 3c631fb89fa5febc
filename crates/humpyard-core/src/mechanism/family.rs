//! The state that a scheduler keeps for a family of policies, if the composition has one.

use core::marker::PhantomData;

/// The state `T` that the mechanism keeps for the policy `P` of a family, if the composition has
/// such a policy. If `P` is [`Never`](super::Never), the compiler knows that there is none and
/// omits its code.
#[derive(Debug)]
pub(super) struct Family<P, T> {
    kept: Kept<T>,
    policy: PhantomData<P>,
}

/// An `Option` with a separate tag byte: cheaper to test at every step than a value of `T` that
/// cannot occur.
#[derive(Debug)]
#[repr(u8)]
enum Kept<T> {
    Absent,
    Present(T),
}

impl<P, T> Family<P, T> {
    /// Whether `P` has no values: then not even `Some` takes any room.
    const IS_NEVER: bool = size_of::<Option<P>>() == 0;

    pub(super) fn new(kept: Option<T>) -> Self {
        Self { kept: kept.map_or(Kept::Absent, Kept::Present), policy: PhantomData }
    }

    #[inline(always)]
    pub(super) fn as_ref(&self) -> Option<&T> {
        match &self.kept {
            _ if Self::IS_NEVER => None,
            Kept::Absent => None,
            Kept::Present(kept) => Some(kept),
        }
    }

    #[inline(always)]
    pub(super) fn as_mut(&mut self) -> Option<&mut T> {
        match &mut self.kept {
            _ if Self::IS_NEVER => None,
            Kept::Absent => None,
            Kept::Present(kept) => Some(kept),
        }
    }

    #[inline(always)]
    pub(super) fn is_some(&self) -> bool {
        self.as_ref().is_some()
    }

    #[inline(always)]
    pub(super) fn is_none(&self) -> bool {
        self.as_ref().is_none()
    }

    /// Converts the state and its policy type.
    pub(super) fn map<P2, T2>(self, convert: impl FnOnce(T) -> T2) -> Family<P2, T2> {
        Family::new(match self.kept {
            Kept::Absent => None,
            Kept::Present(kept) => Some(convert(kept)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Never;
    use super::*;

    #[test]
    fn only_a_policy_that_cannot_be_is_never() {
        const { assert!(Family::<Never, u8>::IS_NEVER) }
        const { assert!(!Family::<(), u8>::IS_NEVER && !Family::<u64, u8>::IS_NEVER && !Family::<&u8, u8>::IS_NEVER) }
        let mut family: Family<(), u8> = Family::new(Some(7));
        assert_eq!((family.as_ref(), family.is_some(), family.is_none()), (Some(&7), true, false));
        *family.as_mut().unwrap() += 1;
        assert_eq!(family.map::<u16, u16>(u16::from).as_ref(), Some(&8));
        assert!(Family::<(), u8>::new(None).is_none());
    }
}
