// Merges pairs of sorted runs of each row: every element finds its rank in the other run. Of equal
// elements those of the first run stay first.

fn id_at(row: u32, j: u32) -> u32 { return rd(p.space, p.word + place(row, j)); }

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let t = group_index(group, groups) * 64u + lane;
    let row = t / p.n;
    if row >= p.head.count {
        return;
    }
    let j = t - row * p.n;
    let base = i32(element(p.head, p.a, row));
    let pair = j / (2u * p.width) * (2u * p.width);
    let second = j - pair >= p.width;
    let id = id_at(row, j);
    let mine = sort_key(p.a.space, u32(base + i32(id) * p.stride));
    // The first place in the other run that does not come before this element.
    let start = select(min(pair + p.width, p.n), pair, second);
    var low = start;
    var high = select(min(pair + 2u * p.width, p.n), pair + p.width, second);
    while low < high {
        let mid = low + (high - low) / 2u;
        let other = sort_key(p.a.space, u32(base + i32(id_at(row, mid)) * p.stride));
        let before = key_below(other, mine) || (second && all(other == mine));
        if before {
            low = mid + 1u;
        } else {
            high = mid;
        }
    }
    let own = j - select(pair, pair + p.width, second);
    wr(p.head.space, p.head.word + place(row, pair + own + (low - start)), id);
}
