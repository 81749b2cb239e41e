// Sorts blocks of 1024 elements of each row: one workgroup a block, by a bitonic network. Indices are
// compared where keys are equal, so that equal elements keep their order.

const BLOCK = 1024u;
const THREADS = 256u;

var<workgroup> keys: array<vec2<u32>, 1024>;
var<workgroup> ids: array<u32, 1024>;

fn out_of_order(a: u32, b: u32) -> bool {
    let x = keys[a];
    let y = keys[b];
    return key_below(y, x) || (all(x == y) && ids[b] < ids[a]);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let block = group_index(group, groups);
    let per_row = (p.n + BLOCK - 1u) / BLOCK;
    let row = block / per_row;
    let first = (block - row * per_row) * BLOCK;
    let live = row < p.head.count;
    var base = 0;
    if live {
        base = i32(element(p.head, p.a, row));
    }
    for (var k = lane; k < BLOCK; k += THREADS) {
        let j = first + k;
        var key = vec2<u32>(0xffffffffu);
        if live && j < p.n {
            key = sort_key(p.a.space, u32(base + i32(j) * p.stride));
        }
        keys[k] = key;
        ids[k] = j;
    }
    // Elements past the end have the largest key and index: they stay last.
    for (var size = 2u; size <= BLOCK; size <<= 1u) {
        for (var step = size >> 1u; step > 0u; step >>= 1u) {
            workgroupBarrier();
            for (var k = lane; k < BLOCK / 2u; k += THREADS) {
                let low = (k / step) * 2u * step + (k % step);
                let high = low + step;
                if out_of_order(low, high) == ((low & size) == 0u) {
                    let key = keys[low];
                    keys[low] = keys[high];
                    keys[high] = key;
                    let id = ids[low];
                    ids[low] = ids[high];
                    ids[high] = id;
                }
            }
        }
    }
    workgroupBarrier();
    for (var k = lane; k < BLOCK; k += THREADS) {
        let j = first + k;
        if live && j < p.n {
            wr(p.head.space, p.head.word + place(row, j), ids[k]);
        }
    }
}
