package transform

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// Modules for tests are put together by hand here, so that none has to be trusted.

// assembly is a module with the imports and functions that a guest has.
type assembly struct {
	imports [][]byte
	kinds   []byte // index of each function's type, imported ones first
	bodies  [][]byte
	globals [][]byte
	exports [][]byte
	data    []byte // at 16
	pages   byte
	more    map[byte][]byte // whole sections, in place of ours
}

// Types of functions, by their index in every assembly.
const (
	kindVoid  = iota // ()
	kindAlloc        // (i32) -> i32
	kindRun          // (i32, i32) -> i32
	kindEmit         // (i32, i32)
	kindI32          // () -> i32
	kindTwo          // (i32) -> (i32, i64)
)

func (a *assembly) importing(module, name string, kind byte) int {
	item := appendSized(appendSized(nil, []byte(module)), []byte(name))
	a.imports = append(a.imports, append(item, 0, kind))
	a.kinds = append(a.kinds, kind)
	return len(a.kinds) - 1
}

// function adds a function with local variables of 32 bits; the code is without its last end.
func (a *assembly) function(kind byte, locals byte, code ...[]byte) int {
	body := []byte{0}
	if locals > 0 {
		body = []byte{1, locals, typeI32}
	}
	a.bodies = append(a.bodies, append(append(body, bytes.Join(code, nil)...), opEnd))
	a.kinds = append(a.kinds, kind)
	return len(a.kinds) - 1
}

func (a *assembly) export(name string, kind byte, index int) {
	a.exports = append(a.exports, binary.AppendUvarint(append(appendSized(nil, []byte(name)), kind), uint64(index)))
}

func (a *assembly) module() []byte {
	sections := map[byte][]byte{
		wasmTypes: appendItems(nil, [][]byte{
			{0x60, 0, 0},
			{0x60, 1, typeI32, 1, typeI32},
			{0x60, 2, typeI32, typeI32, 1, typeI32},
			{0x60, 2, typeI32, typeI32, 0},
			{0x60, 0, 1, typeI32},
			{0x60, 1, typeI32, 2, typeI32, typeI64},
		}),
		wasmImports:   appendItems(nil, a.imports),
		wasmFunctions: {},
		wasmMemories:  {1, 0, max(a.pages, 1)},
		wasmGlobals:   appendItems(nil, a.globals),
		wasmExports:   appendItems(nil, append([][]byte{append(appendSized(nil, []byte("memory")), 2, 0)}, a.exports...)),
	}
	var bodies, kinds [][]byte
	for i, body := range a.bodies {
		bodies = append(bodies, appendSized(nil, body))
		kinds = append(kinds, []byte{a.kinds[len(a.imports)+i]})
	}
	sections[wasmFunctions], sections[wasmCode] = appendItems(nil, kinds), appendItems(nil, bodies)
	if len(a.data) > 0 {
		sections[wasmData] = appendItems(nil, [][]byte{appendSized([]byte{0, opI32Const, 16, opEnd}, a.data)})
	}
	for id, content := range a.more {
		sections[id] = content
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, id := range []byte{wasmTypes, wasmImports, wasmFunctions, wasmTables, wasmMemories, wasmGlobals, wasmExports, wasmStart, wasmElements, wasmDataCount, wasmCode, wasmData} {
		if len(sections[id]) > 0 {
			out = appendSized(append(out, id), sections[id])
		}
	}
	return out
}

func i32(v int64) []byte { return appendSigned([]byte{opI32Const}, v) }

func getting(local byte) []byte { return []byte{opLocalGet, local} }

func setting(local byte) []byte { return []byte{opLocalSet, local} }

func invoking(function int) []byte { return []byte{opCall, byte(function)} }

// load reads 32 bits at what is on the stack and an offset; load8 reads a byte.
func load(offset byte) []byte { return []byte{0x28, 0, offset} }

func load8() []byte { return []byte{0x2d, 0, 0} }

// whenByte does something if local 3 is the character.
func whenByte(c byte, do ...[]byte) []byte {
	code := append(getting(3), i32(int64(c))...)
	code = append(code, 0x46, opIf, blockVoid) // i32.eq
	return append(append(code, bytes.Join(do, nil)...), opEnd)
}

var (
	returns0 = []byte{opI32Const, 0, opReturn}
	endless  = []byte{opLoop, blockVoid, opBr, 0, opEnd}
	// valueAt leaves the address of the value on the stack.
	valueAt = bytes.Join([][]byte{
		getting(0), i32(40),
		{opI32Add},
		getting(0), load(20),
		{opI32Add},
		getting(0), load(24),
		{opI32Add},
		// max(length of the key, 0)
		getting(0), load(28), i32(0), getting(0), load(28), i32(0),
		{0x4a, 0x1b, opI32Add}, // i32.gt_s, select
	}, nil)
)

// allocates adds eosbridge_v1_alloc, which grows the memory if need be and never frees.
func (a *assembly) allocates() {
	heap := len(a.globals)
	a.globals = append(a.globals, append(append([]byte{typeI32, 1}, i32(1024)...), opEnd))
	free := []byte{opGlobalGet, byte(heap)}
	end := bytes.Join([][]byte{free, getting(0), {opI32Add}}, nil)
	pages := bytes.Join([][]byte{end, i32(65535), {opI32Add}, i32(16), {0x76}}, nil) // i32.shr_u
	alloc := a.function(kindAlloc, 1,
		pages, []byte{opMemorySize, 0, opI32GtU, opIf, blockVoid},
		pages, []byte{opMemorySize, 0, opI32Sub, opMemoryGrow, 0}, i32(-1), []byte{0x46, opIf, blockVoid}, returns0, []byte{opEnd, opEnd},
		free, setting(1),
		end, i32(7), []byte{opI32Add}, i32(-8), []byte{0x71}, []byte{opGlobalSet, byte(heap)}, // i32.and
		getting(1))
	a.export(wasmAllocExport, 0, alloc)
}

// manners is a guest whose behaviour the first byte of the value chooses.
func manners() []byte {
	a := &assembly{data: []byte("no, thank you")}
	emit := a.importing(wasmHostModule, "emit", kindEmit)
	refuse := a.importing(wasmHostModule, "refuse", kindEmit)
	a.allocates()
	recurse := len(a.kinds)
	a.function(kindAlloc, 0, getting(0), invoking(recurse), i32(1), []byte{opI32Add})
	whole := bytes.Join([][]byte{getting(0), getting(1), invoking(emit)}, nil)
	run := a.function(kindRun, 2,
		// A counter at 8, which nobody shall see count.
		i32(8), i32(8), load(0), i32(1), []byte{opI32Add, 0x36, 0, 0}, // i32.store
		getting(0), load(32), i32(1), []byte{0x48, opIf, blockVoid}, whole, returns0, []byte{opEnd}, // i32.lt_s
		valueAt, load8(), setting(3),
		whenByte('c', valueAt, i32('0'), i32(8), load(0), []byte{opI32Add, 0x3a, 0, 0}, whole, returns0), // i32.store8
		whenByte('d', returns0),
		whenByte('f', i32(16), i32(13), invoking(refuse)),
		whenByte('n', i32(7), []byte{opReturn}),
		whenByte('2', whole, whole, returns0),
		whenByte('u', []byte{opUnreachable}),
		whenByte('l', endless),
		whenByte('r', i32(0), invoking(recurse), []byte{opReturn}),
		whenByte('g', []byte{opLoop, blockVoid}, i32(1), []byte{opMemoryGrow, 0}, i32(-1), []byte{0x47, 0x0d, 0, opEnd, opUnreachable}), // i32.ne, br_if
		whenByte('b', []byte{opLoop, blockVoid}, whole, []byte{opBr, 0, opEnd}),
		whenByte('m', i32(-2), i32(100), invoking(emit)),
		whenByte('x', getting(0), i32(39), invoking(emit)),
		whenByte('y', getting(0), i32(1000), []byte{0x36, 0, 28}, whole), // a key longer than the record
		whenByte('w', i32(1<<24), i32(0), i32(1<<20), []byte{0xfc, 11, 0}),
		whole, i32(0))
	a.export(wasmTransformExport, 0, run)
	return a.module()
}

var updateGuests = flag.Bool("update-guests", false, "write the guests of the goldens anew")

// TestGuestsReproducible: what lies in testdata is what stands above.
func TestGuestsReproducible(t *testing.T) {
	path := filepath.Join("testdata", "guests", "manners.wasm")
	want := manners()
	if *updateGuests {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what the test assembles (-update-guests writes it anew)", path)
	}
}
