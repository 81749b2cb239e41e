//! Element types: their wire codes, sizes and the delegate's promotion rules.

use std::fmt;

/// An element type of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
    /// Signed 64 bits.
    I64,
    /// Signed 32 bits.
    I32,
    /// Signed 16 bits.
    I16,
    /// Signed 8 bits.
    I8,
    /// Unsigned 32 bits.
    U32,
    /// Unsigned 8 bits.
    U8,
    /// One byte, 0 or 1.
    Bool,
}

/// How a kernel computes on an element type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Calc {
    /// Floats compute in binary32.
    F32,
    /// Signed integers up to 32 bits, `u8` and `bool` compute in 32 signed bits.
    I32,
    /// `u32`.
    U32,
    /// `i64`, as two 32-bit words (low, high).
    I64,
}

impl DType {
    /// All element types.
    pub const ALL: [Self; 10] =
        [Self::F32, Self::F16, Self::BF16, Self::I64, Self::I32, Self::I16, Self::I8, Self::U32, Self::U8, Self::Bool];

    /// The element type of an ExecuTorch `ScalarType` code, if lowtide computes with it.
    pub const fn from_scalar_type(code: i8) -> Option<Self> {
        Some(match code {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::I16,
            3 => Self::I32,
            4 => Self::I64,
            5 => Self::F16,
            6 => Self::F32,
            11 => Self::Bool,
            15 => Self::BF16,
            28 => Self::U32,
            _ => return None,
        })
    }

    /// The ExecuTorch `ScalarType` code.
    pub const fn scalar_type(self) -> i8 {
        match self {
            Self::U8 => 0,
            Self::I8 => 1,
            Self::I16 => 2,
            Self::I32 => 3,
            Self::I64 => 4,
            Self::F16 => 5,
            Self::F32 => 6,
            Self::Bool => 11,
            Self::BF16 => 15,
            Self::U32 => 28,
        }
    }

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Self::I64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::BF16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16)
    }

    /// How kernels compute on it.
    pub const fn calc(self) -> Calc {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => Calc::F32,
            Self::I64 => Calc::I64,
            Self::U32 => Calc::U32,
            Self::I32 | Self::I16 | Self::I8 | Self::U8 | Self::Bool => Calc::I32,
        }
    }

    /// The name used in messages, shaders and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U32 => "u32",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }

    /// The type two operands compute in. Source: MLX `promote_types` (mlx/dtype.cpp): bool gives way to
    /// anything; an integer gives way to a float; `f16` with `bf16` gives `f32`; mixed signs widen.
    pub const fn promote(self, other: Self) -> Self {
        use DType::*;
        match (self, other) {
            (Bool, t) | (t, Bool) => t,
            (F32, _) | (_, F32) => F32,
            (F16, BF16) | (BF16, F16) => F32,
            (F16, _) | (_, F16) => F16,
            (BF16, _) | (_, BF16) => BF16,
            (I64, _) | (_, I64) => I64,
            (U32, I32 | I16 | I8) | (I32 | I16 | I8, U32) => I64,
            (U32, _) | (_, U32) => U32,
            (I32, _) | (_, I32) => I32,
            (I16, _) | (_, I16) => I16,
            (U8, I8) | (I8, U8) => I16,
            (I8, I8) => I8,
            (U8, U8) => U8,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalar_type_codes_round_trip() {
        for t in DType::ALL {
            assert_eq!(DType::from_scalar_type(t.scalar_type()), Some(t));
        }
        assert_eq!(DType::from_scalar_type(7), None);
    }

    #[test]
    fn promotion_is_symmetric_and_idempotent() {
        for a in DType::ALL {
            assert_eq!(a.promote(a), a);
            for b in DType::ALL {
                assert_eq!(a.promote(b), b.promote(a), "{a} {b}");
            }
        }
    }
}
