//! Addresses in the arena: every life at an offset where nothing else lives at the same time.
//!
//! Lives are placed one after the other into a gap that all their steps leave free. A few orders are tried; then
//! what sticks out at the top is placed earlier, again and again, for a bounded time. The lower bound is the largest sum of live bytes over
//! the steps; no placement can be smaller.

use crate::plan::lives::Lives;
use crate::program::Home;
use crate::table::{Col, Id, Life, Step};

/// Every place begins at a multiple of this many bytes, so that vector loads are aligned.
pub const ALIGN: u64 = 16;
/// Programs with more lives than this are placed in one pass over the steps.
const SEARCH_LIVES: usize = 6000;
/// Work of the search for better places, in blocks looked at: some milliseconds.
const SEARCH_WORK: usize = 4_000_000;

/// Addresses and what they add up to.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Byte offset in the arena, for lives that have memory there.
    pub offset: Col<Life, u64>,
    /// Bytes each life has there; 0 for views, for what lives elsewhere and for what takes over another's place.
    pub bytes: Col<Life, u64>,
    /// The first and the last step at which those bytes are taken.
    pub span: Col<Life, (Step, Step)>,
    /// Bytes of the whole arena.
    pub arena_bytes: u64,
    /// Largest sum of live bytes over the steps.
    pub lower_bound: u64,
    /// The first step at which that sum is reached.
    pub peak_step: Step,
}

/// One block to place: a life, or several that share a place one after the other.
#[derive(Clone, Copy, Debug)]
struct Block {
    life: Life,
    born: u32,
    dies: u32,
    bytes: u64,
}

/// Whether a life's memory is in the arena.
pub fn in_arena(home: Home) -> bool {
    matches!(home, Home::Temp | Home::Input | Home::Output)
}

impl Places {
    /// Places lives of these sizes. `merge(heir, from)` says whether an heir really takes over a place.
    /// With `keep` nothing ever dies: what a runtime without releases needs.
    pub fn of(
        lives: &Lives,
        steps: usize,
        bytes: &Col<Life, u64>,
        merge: impl Fn(Life, Life) -> bool,
        keep: bool,
    ) -> Self {
        let last = steps.saturating_sub(1) as u32;
        let mut owner: Col<Life, Life> = Col::from((0..lives.len()).map(Life::new).collect::<Vec<_>>());
        let mut blocks: Vec<Block> = Vec::new();
        let mut block_of: Col<Life, usize> = Col::filled(usize::MAX, lives.len());
        for life in lives.slot.ids() {
            let home = lives.home[life];
            if !in_arena(home) || lives.base[life].is_some() || bytes[life] == 0 {
                continue;
            }
            let size = bytes[life].next_multiple_of(ALIGN);
            let (born, dies) = match home {
                Home::Input => (0, last),
                Home::Output => (lives.born[life].0, last),
                _ if keep => (lives.born[life].0, last),
                _ => (lives.born[life].0, lives.dies[life].0),
            };
            if let Some(from) = lives.share[life]
                .filter(|&f| block_of[f] != usize::MAX && (!keep || lives.inherits[life]) && merge(life, f))
            {
                let b = block_of[from];
                blocks[b].dies = blocks[b].dies.max(dies);
                blocks[b].bytes = blocks[b].bytes.max(size);
                block_of[life] = b;
                owner[life] = blocks[b].life;
                continue;
            }
            block_of[life] = blocks.len();
            blocks.push(Block { life, born, dies, bytes: size });
        }
        let span = Col::filled((Step(0), Step(0)), lives.len());
        let mut places = Self { bytes: Col::filled(0, lives.len()), span, ..Self::default() };
        (places.lower_bound, places.peak_step) = lower_bound(&blocks, steps);
        let (offsets, total) = best_placement(&blocks, places.lower_bound);
        places.arena_bytes = total;
        places.offset = Col::filled(0, lives.len());
        for life in lives.slot.ids().filter(|&l| block_of[l] != usize::MAX) {
            places.offset[life] = offsets[block_of[life]];
        }
        for b in &blocks {
            places.bytes[b.life] = b.bytes;
            places.span[b.life] = (Step(b.born), Step(b.dies));
        }
        places
    }
}

/// The largest sum of bytes alive at one step, and the first step that reaches it.
fn lower_bound(blocks: &[Block], steps: usize) -> (u64, Step) {
    let mut change = vec![0i64; steps + 1];
    for b in blocks {
        change[b.born as usize] += b.bytes as i64;
        change[b.dies as usize + 1] -= b.bytes as i64;
    }
    let (mut live, mut best, mut at) = (0i64, 0i64, 0usize);
    for (step, c) in change.iter().take(steps).enumerate() {
        live += c;
        if live > best {
            (best, at) = (live, step);
        }
    }
    (best as u64, Step::new(at))
}

/// Addresses of all blocks, and where the last one ends.
type Placement = (Vec<u64>, u64);

/// The best of a few orders, made better by moving what sticks out at the top to the front.
fn best_placement(blocks: &[Block], bound: u64) -> Placement {
    let mut best = in_time_order(blocks);
    if blocks.len() > SEARCH_LIVES || best.1 == bound {
        return best;
    }
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    let mut best_order = order.clone();
    best_order.sort_by_key(|&i| (blocks[i].born, std::cmp::Reverse(blocks[i].bytes)));
    let span = |b: &Block| u64::from(b.dies - b.born + 1);
    type Key<'a> = &'a dyn Fn(&Block) -> std::cmp::Reverse<(u64, u64)>;
    let keys: [Key<'_>; 4] = [
        &|b| std::cmp::Reverse((b.bytes, span(b))),
        &|b| std::cmp::Reverse((b.bytes.saturating_mul(span(b)), b.bytes)),
        &|b| std::cmp::Reverse((span(b), b.bytes)),
        &|b| std::cmp::Reverse((b.bytes.ilog2().into(), span(b))),
    ];
    let mut search = Search { blocks, beside: beside(blocks), taken: Vec::new(), work: 0 };
    for (key, lowest) in keys.iter().flat_map(|k| [(k, true), (k, false)]) {
        order.sort_by_key(|&i| key(&blocks[i]));
        if let Some(tried) = search.fit(&order, lowest, best.1 - 1) {
            best_order.clone_from(&order);
            best = tried;
        }
        if best.1 == bound {
            return best;
        }
    }
    // Below a thousandth nothing is gained.
    let enough = bound + bound / 1024;
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let (mut order, mut now) = (best_order.clone(), best.clone());
    let mut idle = 0;
    while best.1 > enough && search.work < SEARCH_WORK {
        let mut next = order.clone();
        if idle > 500 {
            // Stuck: go on from elsewhere near the best.
            idle = 0;
            next.clone_from(&best_order);
            for _ in 0..3 {
                let (x, y) = (random(next.len()), random(next.len()));
                next.swap(x, y);
            }
            now.1 = u64::MAX;
        } else {
            let top = |p: &usize| now.0[order[*p]] + blocks[order[*p]].bytes == now.1;
            let tops: Vec<usize> = (0..order.len()).filter(top).collect();
            let Some(&from) = tops.get(random(tops.len())) else { break };
            let moved = next.remove(from);
            next.insert(random(from + 1), moved);
            if random(3) == 0 {
                let (x, y) = (random(next.len()), random(next.len()));
                next.swap(x, y);
            }
        }
        idle += 1;
        if let Some(tried) = search.fit(&next, random(4) != 0, now.1) {
            if tried.1 < now.1 {
                idle = 0;
            }
            (order, now) = (next, tried);
            if now.1 < best.1 {
                best.clone_from(&now);
                best_order.clone_from(&order);
            }
        }
    }
    best
}

/// Blocks that live beside each block.
fn beside(blocks: &[Block]) -> Vec<Vec<u32>> {
    let mut order: Vec<u32> = (0..blocks.len() as u32).collect();
    order.sort_by_key(|&i| blocks[i as usize].born);
    let mut beside = vec![Vec::new(); blocks.len()];
    let mut alive: Vec<u32> = Vec::new();
    for &i in &order {
        alive.retain(|&k| blocks[k as usize].dies >= blocks[i as usize].born);
        for &k in &alive {
            beside[k as usize].push(i);
            beside[i as usize].push(k);
        }
        alive.push(i);
    }
    beside
}

/// Where a block goes before it has a place.
const NOWHERE: u64 = u64::MAX;

/// Tries orders.
struct Search<'a> {
    blocks: &'a [Block],
    beside: Vec<Vec<u32>>,
    /// Places taken beside the block at hand.
    taken: Vec<(u64, u64)>,
    /// Blocks looked at so far: equal programs get equal plans on any machine.
    work: usize,
}

impl Search<'_> {
    /// Places blocks in the given order, each in the lowest or the smallest gap that it fits between those it lives
    /// beside. Gives up once something ends above `most`.
    fn fit(&mut self, order: &[usize], lowest: bool, most: u64) -> Option<Placement> {
        let mut offset = vec![NOWHERE; self.blocks.len()];
        let mut total = 0;
        for &i in order {
            let bytes = self.blocks[i].bytes;
            self.work += self.beside[i].len() + 1;
            let there = self.beside[i].iter().map(|&k| k as usize).filter(|&k| offset[k] != NOWHERE);
            self.taken.clear();
            self.taken.extend(there.map(|k| (offset[k], offset[k] + self.blocks[k].bytes)));
            self.taken.sort_unstable();
            let (mut at, mut best) = (0u64, None::<(u64, u64)>);
            for &(start, end) in &self.taken {
                if start >= at + bytes {
                    let gap = start - at;
                    if best.is_none_or(|(g, _)| gap < g) {
                        best = Some((gap, at));
                    }
                    if lowest {
                        break;
                    }
                }
                at = at.max(end);
            }
            offset[i] = best.map_or(at, |(_, at)| at);
            total = total.max(offset[i] + bytes);
            if total > most {
                return None;
            }
        }
        Some((offset, total))
    }
}

/// Allocates and frees along the steps, as a run would: linear in the number of lives for real programs.
fn in_time_order(blocks: &[Block]) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&i| (blocks[i].born, std::cmp::Reverse(blocks[i].bytes)));
    let mut ends: std::collections::BinaryHeap<std::cmp::Reverse<(u32, usize)>> = Default::default();
    // Free gaps by offset, and the end of the memory in use.
    let mut free: std::collections::BTreeMap<u64, u64> = Default::default();
    let mut offset = vec![0u64; blocks.len()];
    let mut total = 0u64;
    for &i in &order {
        let b = &blocks[i];
        while let Some(&std::cmp::Reverse((dies, k))) = ends.peek() {
            if dies >= b.born {
                break;
            }
            ends.pop();
            release(&mut free, offset[k], blocks[k].bytes);
        }
        let gap = free
            .iter()
            .filter(|&(_, &size)| size >= b.bytes)
            .min_by_key(|&(_, &size)| size)
            .map(|(&at, &size)| (at, size));
        let at = match gap {
            Some((at, size)) => {
                free.remove(&at);
                if size > b.bytes {
                    free.insert(at + b.bytes, size - b.bytes);
                }
                at
            }
            None => {
                // Grow: a gap that touches the end is extended.
                let at = match free.last_key_value() {
                    Some((&at, &size)) if at + size == total => {
                        free.remove(&at);
                        at
                    }
                    _ => total,
                };
                total = at + b.bytes;
                at
            }
        };
        offset[i] = at;
        ends.push(std::cmp::Reverse((b.dies, i)));
    }
    (offset, total)
}

fn release(free: &mut std::collections::BTreeMap<u64, u64>, at: u64, bytes: u64) {
    let (mut start, mut size) = (at, bytes);
    if let Some((&a, &s)) = free.range(..at).next_back()
        && a + s == at
    {
        free.remove(&a);
        (start, size) = (a, s + size);
    }
    if let Some(s) = free.remove(&(at + bytes)) {
        size += s;
    }
    free.insert(start, size);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(blocks: &[(u32, u32, u64)], expect: u64) {
        let blocks: Vec<Block> =
            blocks.iter().map(|&(born, dies, bytes)| Block { life: Life(0), born, dies, bytes }).collect();
        let steps = blocks.iter().map(|b| b.dies as usize + 1).max().unwrap_or(0);
        let (bound, _) = lower_bound(&blocks, steps);
        let (offset, total) = best_placement(&blocks, bound);
        for (i, a) in blocks.iter().enumerate() {
            for (k, b) in blocks.iter().enumerate().take(i) {
                let together = a.born <= b.dies && b.born <= a.dies;
                let apart = offset[i] + a.bytes <= offset[k] || offset[k] + b.bytes <= offset[i];
                assert!(!together || apart, "blocks {i} and {k} overlap");
            }
        }
        assert!(total >= bound);
        assert_eq!(total, expect);
    }

    #[test]
    fn lives_that_never_meet_share() {
        check(&[(0, 1, 64), (2, 3, 64), (4, 5, 32)], 64);
    }

    #[test]
    fn a_chain_needs_two_at_a_time() {
        check(&[(0, 1, 16), (1, 2, 16), (2, 3, 16), (3, 4, 16)], 32);
    }

    #[test]
    fn large_late_lives_do_not_fragment() {
        check(&[(0, 5, 16), (0, 1, 48), (2, 5, 64), (6, 7, 128)], 128);
    }

    #[test]
    fn nothing_needs_nothing() {
        check(&[], 0);
    }
}
