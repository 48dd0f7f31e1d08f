package transform

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The parts of a WebAssembly module (WebAssembly Core Specification 2.0, chapter 5) that have
// to be known to meter it. What is not looked at here is wazero's to validate.

// Sections by their id.
const (
	wasmCustom = iota
	wasmTypes
	wasmImports
	wasmFunctions
	wasmTables
	wasmMemories
	wasmGlobals
	wasmExports
	wasmStart
	wasmElements
	wasmCode
	wasmData
	wasmDataCount
	wasmSections
)

var errWASMShort = errors.New("the module ends early or is malformed")

// wasmReader reads a module from left to right. After the first fault it stays there and
// gives zeros.
type wasmReader struct {
	data []byte
	at   int
	err  error
}

func (r *wasmReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.at = len(r.data)
}

func (r *wasmReader) done() bool { return r.at >= len(r.data) }

func (r *wasmReader) byte() byte {
	if r.at >= len(r.data) {
		r.fail(errWASMShort)
		return 0
	}
	b := r.data[r.at]
	r.at++
	return b
}

// u32 reads an unsigned number in LEB128.
func (r *wasmReader) u32() uint32 {
	if r.at < len(r.data) && r.data[r.at] < 0x80 {
		r.at++
		return uint32(r.data[r.at-1])
	}
	v, n := binary.Uvarint(r.data[min(r.at, len(r.data)):])
	if n <= 0 || n > 5 || v > 1<<32-1 {
		r.fail(errWASMShort)
		return 0
	}
	r.at += n
	return uint32(v)
}

// skipNumber steps over a number in LEB128, signed or not.
func (r *wasmReader) skipNumber() {
	for range 10 {
		if r.byte() < 0x80 {
			return
		}
	}
	r.fail(errWASMShort)
}

func (r *wasmReader) take(n uint32) []byte {
	if uint64(n) > uint64(len(r.data)-min(r.at, len(r.data))) {
		r.fail(errWASMShort)
		return nil
	}
	taken := r.data[r.at : r.at+int(n)]
	r.at += int(n)
	return taken
}

func (r *wasmReader) name() string { return string(r.take(r.u32())) }

// count reads the number of items that follow: each takes a byte at least.
func (r *wasmReader) count() int {
	n := r.u32()
	if int64(n) > int64(len(r.data)-r.at) {
		r.fail(errWASMShort)
		return 0
	}
	return int(n)
}

// wasmType is the type of a function.
type wasmType struct{ params, results []byte }

// wasmImport is a function that the module asks for.
type wasmImport struct {
	module, name string
	kind         uint32 // index of its type
}

// wasmGlobal is a global variable of the module.
type wasmGlobal struct {
	kind    byte
	mutable bool
}

// wasmModule is a module taken apart.
type wasmModule struct {
	sections  [wasmSections][]byte
	has       [wasmSections]bool
	names     []byte // the custom section with the names of functions
	types     []wasmType
	imports   []wasmImport
	functions []uint32 // index of the type of each function that is not imported
	globals   []wasmGlobal
	exports   map[string]byte // kind by name: 0 function, 2 memory
	pages     uint32          // of the memory at the start
	maxPages  uint32          // that the module itself allows
}

// parseWASM takes a module apart.
func parseWASM(data []byte) (*wasmModule, error) {
	const header = "\x00asm\x01\x00\x00\x00"
	if len(data) < len(header) || string(data[:4]) != header[:4] {
		return nil, errors.New(`the file is no WebAssembly module: it does not begin with "\0asm"`)
	}
	if string(data[:len(header)]) != header {
		return nil, errors.New("the file is no WebAssembly module of version 1 (a component is none: build a core module, for wasip1 and not wasip2)")
	}
	m := &wasmModule{exports: map[string]byte{}, maxPages: wasmMaxPages}
	r := wasmReader{data: data, at: len(header)}
	for !r.done() {
		id, content := r.byte(), r.take(r.u32())
		switch {
		case r.err != nil:
			return nil, r.err
		case id == wasmCustom:
			name := wasmReader{data: content}
			if name.name() == "name" {
				m.names = content
			}
		case id >= wasmSections:
			return nil, fmt.Errorf("the module has a section of kind %d: only WebAssembly 2.0 is understood, without extensions", id)
		case m.has[id]:
			return nil, fmt.Errorf("the module has the section %d twice", id)
		default:
			m.sections[id], m.has[id] = content, true
		}
	}
	for _, read := range []func() error{m.readTypes, m.readImports, m.readFunctions, m.readTables, m.readMemory, m.readGlobals, m.readExports} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *wasmModule) section(id int) (*wasmReader, int) {
	r := &wasmReader{data: m.sections[id]}
	if !m.has[id] {
		return r, 0
	}
	return r, r.count()
}

func (m *wasmModule) readTypes() error {
	r, n := m.section(wasmTypes)
	for range n {
		if form := r.byte(); form != 0x60 && r.err == nil {
			return fmt.Errorf("the module has a type of kind %#x: only functions are understood", form)
		}
		m.types = append(m.types, wasmType{r.take(r.u32()), r.take(r.u32())})
	}
	return r.err
}

func (m *wasmModule) readImports() error {
	r, n := m.section(wasmImports)
	for range n {
		i := wasmImport{module: r.name(), name: r.name()}
		if kind := r.byte(); kind != 0 && r.err == nil {
			return fmt.Errorf("the module imports %s.%s, which is no function: a guest has its own memory, tables and variables", i.module, i.name)
		}
		if i.kind = r.u32(); r.err == nil && int64(i.kind) >= int64(len(m.types)) {
			return errWASMShort
		}
		m.imports = append(m.imports, i)
	}
	return r.err
}

func (m *wasmModule) readFunctions() error {
	r, n := m.section(wasmFunctions)
	for range n {
		kind := r.u32()
		if r.err == nil && int64(kind) >= int64(len(m.types)) {
			return errWASMShort
		}
		m.functions = append(m.functions, kind)
	}
	return r.err
}

// readTables bounds what wazero would allocate at once.
func (m *wasmModule) readTables() error {
	const most = 1 << 20
	r, n := m.section(wasmTables)
	total := uint64(0)
	for range n {
		r.byte()
		flags := r.byte()
		total += uint64(r.u32())
		if flags&1 != 0 {
			r.u32()
		}
	}
	if total > most && r.err == nil {
		return fmt.Errorf("the tables of the module begin with %d places, more than %d", total, most)
	}
	return r.err
}

func (m *wasmModule) readMemory() error {
	r, n := m.section(wasmMemories)
	if n != 1 {
		return errors.New("the module has no memory of its own, or several: a guest has one and exports it as \"memory\"")
	}
	flags := r.byte()
	m.pages = r.u32()
	if flags == 1 {
		m.maxPages = min(r.u32(), wasmMaxPages)
	}
	if flags > 1 && r.err == nil {
		return errors.New("the memory of the module is shared or of 64 bits: build it without threads, for wasm32")
	}
	return r.err
}

func (m *wasmModule) readGlobals() error {
	r, n := m.section(wasmGlobals)
	for range n {
		g := wasmGlobal{kind: r.byte(), mutable: r.byte() == 1}
		if g.mutable && (g.kind < 0x7c || g.kind > 0x7f) && r.err == nil {
			return errors.New("the module has a variable that is no number: it could not be set back after a record")
		}
		for op := r.byte(); op != 0x0b && r.err == nil; op = r.byte() {
			r.immediates(op)
		}
		m.globals = append(m.globals, g)
	}
	return r.err
}

func (m *wasmModule) readExports() error {
	r, n := m.section(wasmExports)
	for range n {
		name := r.name()
		m.exports[name] = r.byte()
		r.u32()
	}
	return r.err
}

// exportsFunction tells whether the module exports a function of the name.
func (m *wasmModule) exportsFunction(name string) bool {
	kind, has := m.exports[name]
	return has && kind == 0
}

// opcode is an instruction, the prefixed ones as prefix<<8 + the number behind it.
type opcode uint32

// instruction steps over the next instruction.
func (r *wasmReader) instruction() opcode { return r.immediates(r.byte()) }

// immediates steps over what follows the first byte of an instruction.
func (r *wasmReader) immediates(first byte) opcode {
	op := opcode(first)
	switch {
	case first >= 0x45 && first <= 0xc4, first <= 0x01, first == opElse, first == opEnd, first == opReturn, first == 0x1a, first == 0x1b, first == 0xd1:
	case first == opBlock, first == opLoop, first == opIf, first == 0x41, first == 0x42, first == 0xd0:
		r.skipNumber()
	case first == 0x0c, first == 0x0d, first == opCall, first >= 0x20 && first <= 0x26, first == opMemorySize, first == opMemoryGrow, first == 0xd2:
		r.u32()
	case first == opCallIndirect, first >= 0x28 && first <= 0x3e:
		r.u32()
		r.u32()
	case first == 0x0e: // br_table
		for range r.count() {
			r.u32()
		}
		r.u32()
	case first == 0x1c: // select with types
		r.take(r.u32())
	case first == 0x43:
		r.take(4)
	case first == 0x44:
		r.take(8)
	case first == 0xfc:
		return r.miscellaneous()
	case first == 0xfd:
		return r.vector()
	default:
		r.fail(fmt.Errorf("the module has the instruction %#x: only WebAssembly 2.0 is understood, without extensions", first))
	}
	return op
}

func (r *wasmReader) miscellaneous() opcode {
	sub := r.u32()
	switch {
	case sub <= 7: // conversions
	case sub == 9, sub == 11, sub == 13, sub == 15, sub == 16, sub == 17:
		r.u32()
	case sub == 8, sub == 10, sub == 12, sub == 14:
		r.u32()
		r.u32()
	default:
		r.fail(fmt.Errorf("the module has the instruction 0xfc %d: only WebAssembly 2.0 is understood, without extensions", sub))
	}
	return 0xfc00 + opcode(sub)
}

func (r *wasmReader) vector() opcode {
	sub := r.u32()
	switch {
	case sub <= 11, sub == 92, sub == 93: // loads and stores
		r.u32()
		r.u32()
	case sub == 12, sub == 13:
		r.take(16)
	case sub >= 21 && sub <= 34:
		r.byte()
	case sub >= 84 && sub <= 91:
		r.u32()
		r.u32()
		r.byte()
	case sub > 255:
		r.fail(fmt.Errorf("the module has the instruction 0xfd %d: only WebAssembly 2.0 is understood, without extensions", sub))
	}
	return 0xfd00 + opcode(sub)
}
