// An example of a guest in Rust, without crates and without its standard library: orders of more
// than 100 from the region eu become gold, all others are dropped.
//
//     rustup target add wasm32-unknown-unknown
//     rustc --edition 2021 --target wasm32-unknown-unknown --crate-type cdylib -C opt-level=3 -C panic=abort order.rs
//
// It never frees anything: the host sets the memory back before each record.
#![no_std]

use core::arch::wasm32::{memory_grow, memory_size, unreachable};
use core::slice::{from_raw_parts, from_raw_parts_mut};

#[link(wasm_import_module = "eosbridge_v1")]
extern "C" {
    fn emit(at: *const u8, length: usize);
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unreachable()
}

extern "C" {
    static __heap_base: u8;
}

static mut FREE: usize = 0;

#[no_mangle]
pub extern "C" fn eosbridge_v1_alloc(size: usize) -> *mut u8 {
    unsafe {
        if FREE == 0 {
            FREE = &__heap_base as *const u8 as usize;
        }
        let at = FREE;
        FREE = (at + size + 15) & !15;
        let have = memory_size(0);
        let need = (FREE + 0xffff) >> 16;
        if need > have && memory_grow(0, need - have) == usize::MAX {
            return core::ptr::null_mut();
        }
        at as *mut u8
    }
}

fn number(b: &[u8], at: usize) -> i32 {
    i32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

#[no_mangle]
pub extern "C" fn eosbridge_v1_transform(at: *const u8, length: usize) -> i32 {
    let frame = unsafe { from_raw_parts(at, length) };
    let (key, size) = (number(frame, 28), number(frame, 32));
    if size < 0 {
        return 0;
    }
    let start = 40 + (number(frame, 20) + number(frame, 24) + key.max(0)) as usize;
    let end = start + size as usize;
    let value = &frame[start..end];
    if field(value, b"region") != Some(b"\"eu\"") || !field(value, b"amount").map_or(false, over_hundred) {
        return 0;
    }
    let close = match value.iter().rposition(|&c| c == b'}') {
        Some(i) => start + i,
        None => return 1,
    };
    let more = b",\"tier\":\"gold\"";
    let out = unsafe { from_raw_parts_mut(eosbridge_v1_alloc(length + more.len()), length + more.len()) };
    out[..close].copy_from_slice(&frame[..close]);
    out[close..close + more.len()].copy_from_slice(more);
    out[close + more.len()..].copy_from_slice(&frame[close..]);
    out[32..36].copy_from_slice(&(size + more.len() as i32).to_le_bytes());
    unsafe { emit(out.as_ptr(), out.len()) };
    0
}

// over_hundred tells whether a number without exponent is more than 100.
fn over_hundred(text: &[u8]) -> bool {
    let (mut whole, mut rest) = (0u64, false);
    let mut digits = text.iter();
    for &c in digits.by_ref() {
        match c {
            b'0'..=b'9' => whole = whole.saturating_mul(10).saturating_add((c - b'0') as u64),
            b'.' => break,
            _ => return false,
        }
    }
    for &c in digits {
        match c {
            b'0' => {}
            b'1'..=b'9' => rest = true,
            _ => return false,
        }
    }
    whole > 100 || whole == 100 && rest
}

// field finds the value of a field of a JSON object, as it is written. It trusts that the value
// is JSON.
fn field<'a>(doc: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (mut depth, mut key, mut i) = (0, false, 0);
    while i < doc.len() {
        match doc[i] {
            b'{' => {
                depth += 1;
                key = true;
            }
            b'[' => {
                depth += 1;
                key = false;
            }
            b'}' | b']' => depth -= 1,
            b',' => key = true,
            b':' => key = false,
            b'"' => {
                let end = skip(doc, i);
                if depth == 1 && key && doc.get(i + 1..end - 1) == Some(name) {
                    return Some(bare(doc, end));
                }
                i = end;
                continue;
            }
            _ => {}
        }
        i += 1;
    }
    None
}

fn skip(doc: &[u8], start: usize) -> usize {
    let mut i = start + 1;
    while i < doc.len() {
        match doc[i] {
            b'\\' => i += 1,
            b'"' => return i + 1,
            _ => {}
        }
        i += 1;
    }
    doc.len()
}

fn bare(doc: &[u8], mut i: usize) -> &[u8] {
    while i < doc.len() && (doc[i] == b':' || doc[i] == b' ') {
        i += 1;
    }
    let start = i;
    if i < doc.len() && doc[i] == b'"' {
        return &doc[i..skip(doc, i)];
    }
    while i < doc.len() && !matches!(doc[i], b',' | b'}' | b' ') {
        i += 1;
    }
    &doc[start..i]
}
