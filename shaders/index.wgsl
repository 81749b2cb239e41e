// Indices that tensors hold.

// An index below `size`: negative ones count from the end, others out of range are clamped. A `size` of
// zero takes the low word as it is.
fn wrapped_index(v: vec2<u32>, size: u32) -> u32 {
    if size == 0u { return v.x; }
    var i = v;
    if i64_is_neg(i) { i = i64_add(i, vec2<u32>(size, 0u)); }
    if i64_is_neg(i) { return 0u; }
    if i.y != 0u || i.x >= size { return size - 1u; }
    return i.x;
}

// As `wrapped_index`, but an index out of range is 0xffffffff.
fn checked_index(v: vec2<u32>, size: u32) -> u32 {
    var i = v;
    if i64_is_neg(i) { i = i64_add(i, vec2<u32>(size, 0u)); }
    return select(0xffffffffu, i.x, i.y == 0u && i.x < size);
}
