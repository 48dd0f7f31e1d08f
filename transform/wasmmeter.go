package transform

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A guest is rewritten before it is compiled, so that it counts what it does and can be set
// back:
//
//   - Steps. At the head of each loop and at the beginning of each function that calls others a
//     variable is reduced, and below zero the guest traps. A count is the same on every run and
//     on every machine, which a clock is not. wazero's own way to stop a guest
//     (WithCloseOnContextDone) goes by a clock and leaves the compiled code at each turn of each loop.
//   - Depth. Calls within calls are counted as well, or a recursion without end would take
//     what wazero allows a stack, 126 MB, before it fails.
//   - Pages. The memory has its full size from the beginning, and the size that the guest sees
//     is a variable: it can be set back, which the size of a memory cannot.
//   - Pages that were written to. Each store sets a byte behind the memory: see wasmMemory.
//   - All variables are exported, to be read once the guest has started and to be set back
//     before each record. Instructions that change what cannot be set back are refused.
//
// The functions keep their numbers: nothing is added in front of anything.

const (
	wasmPage     = 1 << 16
	wasmMaxPages = 1 << 14 // 1 GiB

	// stepSize is how many instructions in a row count as one step.
	stepSize = 64

	// maxDepth bounds calls within calls; a function with many variables counts more than once.
	// With what compiled functions put on the stack this is 10 to 20 MB.
	maxDepth = 20_000
)

const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableSet     = 0x26
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opI32GtU       = 0x4b
	opI64LtS       = 0x53
	opI64LeU       = 0x58
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64ShrU      = 0x88
	opI64ExtendU   = 0xad
	opI32Ne        = 0x47
	opI32Mul       = 0x6c
	opI32ShrU      = 0x76
	opI32Store8    = 0x3a

	opMemoryInit = 0xfc08
	opDataDrop   = 0xfc09
	opMemoryCopy = 0xfc0a
	opMemoryFill = 0xfc0b
	opTableInit  = 0xfc0c
	opElemDrop   = 0xfc0d
	opTableCopy  = 0xfc0e
	opTableGrow  = 0xfc0f
	opTableFill  = 0xfc11

	typeI32   = 0x7f
	typeI64   = 0x7e
	typeF32   = 0x7d
	typeF64   = 0x7c
	typeV128  = 0x7b
	blockVoid = 0x40
)

// wasmVariable is the name under which a variable is exported.
func wasmVariable(index int) string { return fmt.Sprintf("eosbridge:variable:%d", index) }

// The variables that are added stand behind those of the module.
func (m *wasmModule) stepsAt() int { return len(m.globals) }
func (m *wasmModule) depthAt() int { return len(m.globals) + 1 }
func (m *wasmModule) pagesAt() int { return len(m.globals) + 2 }

// metered returns the module rewritten, with a memory of limit pages and some steps for its
// start.
func (m *wasmModule) metered(limit uint32, steps int64) ([]byte, error) {
	if m.pages > limit {
		return nil, fmt.Errorf("the module begins with %d KiB of memory, more than it may have: raise the limit (memory: %dMiB), or build it with a smaller stack",
			m.pages*64, (m.pages+15)/16)
	}
	if kind, has := m.exports["memory"]; !has || kind != 2 {
		return nil, errors.New(`the module does not export its memory as "memory"`)
	}
	code, added, err := m.meteredCode(limit)
	if err != nil {
		return nil, err
	}
	sections := m.sections
	sections[wasmTypes] = appendItems(m.sections[wasmTypes], added)
	size := uint64(limit + mapPages(limit))
	sections[wasmMemories] = binary.AppendUvarint(binary.AppendUvarint([]byte{1, 1}, size), size)
	sections[wasmGlobals] = appendItems(m.sections[wasmGlobals], m.addedGlobals(steps))
	sections[wasmExports] = appendItems(m.sections[wasmExports], m.addedExports())
	sections[wasmCode] = code
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, id := range []byte{wasmTypes, wasmImports, wasmFunctions, wasmTables, wasmMemories, wasmGlobals, wasmExports, wasmStart, wasmElements, wasmDataCount, wasmCode, wasmData} {
		if len(sections[id]) > 0 {
			out = appendSized(append(out, id), sections[id])
		}
	}
	if len(m.names) > 0 {
		out = appendSized(append(out, wasmCustom), m.names)
	}
	return out, nil
}

func appendSized(out, content []byte) []byte {
	return append(binary.AppendUvarint(out, uint64(len(content))), content...)
}

// appendItems returns a section with more items.
func appendItems(section []byte, added [][]byte) []byte {
	r := wasmReader{data: section}
	count := uint32(0)
	if len(section) > 0 {
		count = r.u32()
	}
	out := binary.AppendUvarint(nil, uint64(count)+uint64(len(added)))
	out = append(out, section[r.at:]...)
	for _, item := range added {
		out = append(out, item...)
	}
	return out
}

func (m *wasmModule) addedGlobals(steps int64) [][]byte {
	return [][]byte{
		append(appendSigned([]byte{typeI64, 1, opI64Const}, steps), opEnd),
		{typeI32, 1, opI32Const, 0, opEnd},
		append(appendSigned([]byte{typeI32, 1, opI32Const}, int64(m.pages)), opEnd),
	}
}

func (m *wasmModule) addedExports() [][]byte {
	var items [][]byte
	for i := range len(m.globals) + 3 {
		if i < len(m.globals) && !m.globals[i].mutable {
			continue
		}
		item := appendSized(nil, []byte(wasmVariable(i)))
		items = append(items, binary.AppendUvarint(append(item, 3), uint64(i)))
	}
	return items
}

// appendSigned appends a signed number in LEB128.
func appendSigned(out []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// meteredCode rewrites the bodies of all functions. added are the types that it needs besides.
func (m *wasmModule) meteredCode(limit uint32) (code []byte, added [][]byte, err error) {
	r, n := m.section(wasmCode)
	if r.err != nil || n != len(m.functions) {
		return nil, nil, errWASMShort
	}
	blocks := map[string]int64{} // type of a block by its results, where one byte does not do
	code = binary.AppendUvarint(nil, uint64(n))
	for i := range n {
		body := wasmReader{data: r.take(r.u32())}
		if r.err != nil {
			return nil, nil, r.err
		}
		kind := m.types[m.functions[i]]
		block := int64(blockVoid) - 128 // as the signed number it is
		switch len(kind.results) {
		case 0:
		case 1:
			block = int64(kind.results[0]) - 128
		default:
			known, has := blocks[string(kind.results)]
			if !has {
				known = int64(len(m.types) + len(added))
				blocks[string(kind.results)] = known
				added = append(added, appendSized([]byte{0x60, 0}, kind.results))
			}
			block = known
		}
		f := meteredFunction{m: m, in: body, pages: min(limit, m.maxPages), dirtyMap: uint64(limit) * wasmPage, block: block, params: len(kind.params)}
		if err := f.rewrite(); err != nil {
			return nil, nil, fmt.Errorf("function %d: %w", len(m.imports)+i, err)
		}
		code = appendSized(code, f.out)
	}
	return code, added, nil
}

// meteredFunction rewrites one function.
type meteredFunction struct {
	m        *wasmModule
	in       wasmReader
	out      []byte
	pages    uint32 // that the guest may have
	dirtyMap uint64 // where it is
	block    int64  // type of a block with the results of the function
	params   int

	// The local variables that are added: of 64 bits, three of 32 bits, and of each other type
	// that can be stored.
	long, short, address, second, single, double, vector uint64

	variables int
	cost      survey
}

// survey is what the instructions of a function are, loop by loop.
type survey struct {
	entry uint32   // instructions outside of loops
	loops []uint32 // instructions of each loop, without those of loops in it
	calls bool
}

func (f *meteredFunction) rewrite() error {
	groups := f.in.count()
	from := f.in.at
	for range groups {
		f.variables += int(min(f.in.u32(), 1<<20))
		f.in.byte()
	}
	if f.in.err != nil || f.variables > 1<<20 {
		return errWASMShort
	}
	f.out = binary.AppendUvarint(nil, uint64(groups)+5)
	f.out = append(f.out, f.in.data[from:f.in.at]...)
	f.out = append(f.out, 1, typeI64, 3, typeI32, 1, typeF32, 1, typeF64, 1, typeV128)
	f.long = uint64(f.params + f.variables)
	f.short, f.address, f.second = f.long+1, f.long+2, f.long+3
	f.single, f.double, f.vector = f.long+4, f.long+5, f.long+6
	var err error
	if f.cost, err = surveyed(f.in); err != nil {
		return err
	}
	if !f.cost.calls {
		if f.cost.entry > stepSize {
			f.charge(f.cost.entry)
		}
		return f.body(false)
	}
	f.charge(f.cost.entry)
	weight := int64(1 + f.variables/16 + int(f.cost.entry)/512)
	f.global(opGlobalGet, f.m.depthAt())
	f.out = appendSigned(append(f.out, opI32Const), weight)
	f.op(opI32Add)
	f.local(opLocalTee, f.short)
	f.global(opGlobalSet, f.m.depthAt())
	f.local(opLocalGet, f.short)
	f.out = appendSigned(append(f.out, opI32Const), maxDepth)
	f.op(opI32GtU, opIf, blockVoid, opUnreachable, opEnd)
	f.out = appendSigned(append(f.out, opBlock), f.block)
	if err := f.body(true); err != nil {
		return err
	}
	f.global(opGlobalGet, f.m.depthAt())
	f.out = appendSigned(append(f.out, opI32Const), weight)
	f.op(opI32Sub)
	f.global(opGlobalSet, f.m.depthAt())
	f.op(opEnd)
	return nil
}

// surveyed counts the instructions from the reader's place to the end of the body.
func surveyed(in wasmReader) (survey, error) {
	counts, at := []uint32{0}, 0
	var open []int // where the count goes on behind each block that is open
	calls := false
	for {
		op := in.instruction()
		if in.err != nil {
			return survey{}, in.err
		}
		counts[at]++
		switch op {
		case opBlock, opIf:
			open = append(open, at)
		case opLoop:
			open = append(open, at)
			counts = append(counts, 0)
			at = len(counts) - 1
		case opCall, opCallIndirect:
			calls = true
		case opEnd:
			if len(open) == 0 {
				if !in.done() {
					return survey{}, errWASMShort
				}
				return survey{entry: counts[0], loops: counts[1:], calls: calls}, nil
			}
			at, open = open[len(open)-1], open[:len(open)-1]
		case opTableSet, opDataDrop, opTableInit, opElemDrop, opTableCopy, opTableGrow, opTableFill:
			return survey{}, errors.New("changes a table or drops a segment, which could not be set back after a record: build the guest without it")
		}
	}
}

// body copies the instructions with what they need besides. Where it is wrapped into a block,
// a return becomes a branch to the end of that.
func (f *meteredFunction) body(wrapped bool) error {
	loop, nesting := 0, uint64(0)
	for !f.in.done() {
		from := f.in.at
		op := f.in.instruction()
		if f.in.err != nil {
			return f.in.err
		}
		raw := f.in.data[from:f.in.at]
		switch op {
		case opBlock, opIf:
			nesting++
			f.op(raw...)
		case opLoop:
			nesting++
			f.op(raw...)
			f.charge(f.cost.loops[loop])
			loop++
		case opEnd:
			nesting--
			f.op(raw...)
		case opReturn:
			if wrapped {
				f.out = binary.AppendUvarint(append(f.out, opBr), nesting)
			} else {
				f.op(raw...)
			}
		case opMemorySize:
			f.global(opGlobalGet, f.m.pagesAt())
		case opMemoryGrow:
			f.grow()
		case opMemoryInit, opMemoryCopy, opMemoryFill:
			f.many(raw)
		default:
			if value, isStore := f.stored(op); isStore {
				f.store(raw, value)
			} else {
				f.op(raw...)
			}
		}
	}
	return nil
}

func (f *meteredFunction) op(bytes ...byte) { f.out = append(f.out, bytes...) }

func (f *meteredFunction) local(op byte, index uint64) {
	f.out = binary.AppendUvarint(append(f.out, op), index)
}

func (f *meteredFunction) global(op byte, index int) {
	f.out = binary.AppendUvarint(append(f.out, op), uint64(index))
}

// charge takes the steps of some instructions, and traps if there are none left.
func (f *meteredFunction) charge(instructions uint32) {
	f.global(opGlobalGet, f.m.stepsAt())
	f.out = appendSigned(append(f.out, opI64Const), 1+int64(instructions/stepSize))
	f.op(opI64Sub)
	f.local(opLocalTee, f.long)
	f.global(opGlobalSet, f.m.stepsAt())
	f.local(opLocalGet, f.long)
	f.op(opI64Const, 0, opI64LtS, opIf, blockVoid, opUnreachable, opEnd)
}

// stored is the variable for the value of a store.
func (f *meteredFunction) stored(op opcode) (value uint64, isStore bool) {
	switch op {
	case 0x36, 0x3a, 0x3b:
		return f.short, true
	case 0x37, 0x3c, 0x3d, 0x3e:
		return f.long, true
	case 0x38:
		return f.single, true
	case 0x39:
		return f.double, true
	case 0xfd0b, 0xfd58, 0xfd59, 0xfd5a, 0xfd5b:
		return f.vector, true
	}
	return 0, false
}

// store is a store that marks the page it has written to.
func (f *meteredFunction) store(raw []byte, value uint64) {
	f.local(opLocalSet, value)
	f.local(opLocalTee, f.address)
	f.local(opLocalGet, value)
	f.op(raw...)
	f.local(opLocalGet, f.address)
	r := wasmReader{data: raw, at: 1}
	if raw[0] == 0xfd {
		r.u32()
	}
	r.u32() // alignment
	if offset := r.u32(); offset > 0 {
		f.out = appendSigned(append(f.out, opI32Const), int64(int32(offset)))
		f.op(opI32Add)
	}
	f.op(opI32Const, dirtyShift, opI32ShrU, opI32Const, 1, opI32Store8, 0)
	f.out = binary.AppendUvarint(f.out, f.dirtyMap)
}

// many is an instruction that writes as many bytes as the top of the stack says. It takes a step
// for each 64 of them (the next loop or call traps, if need be: a single one ends by itself) and
// marks the pages.
func (f *meteredFunction) many(raw []byte) {
	f.local(opLocalSet, f.short)
	f.local(opLocalSet, f.second)
	f.local(opLocalTee, f.address)
	f.local(opLocalGet, f.second)
	f.local(opLocalGet, f.short)
	f.op(raw...)
	f.global(opGlobalGet, f.m.stepsAt())
	f.local(opLocalGet, f.short)
	f.op(opI64ExtendU, opI64Const, 6, opI64ShrU, opI64Sub)
	f.global(opGlobalSet, f.m.stepsAt())
	// From the entry of the first page on, as many as there are pages.
	f.local(opLocalGet, f.address)
	f.op(opI32Const, dirtyShift, opI32ShrU)
	f.out = appendSigned(append(f.out, opI32Const), int64(f.dirtyMap))
	f.op(opI32Add, opI32Const, 1)
	f.local(opLocalGet, f.address)
	f.local(opLocalGet, f.short)
	f.op(opI32Add, opI32Const, 1, opI32Sub, opI32Const, dirtyShift, opI32ShrU)
	f.local(opLocalGet, f.address)
	f.op(opI32Const, dirtyShift, opI32ShrU, opI32Sub, opI32Const, 1, opI32Add)
	f.local(opLocalGet, f.short)
	f.op(opI32Const, 0, opI32Ne, opI32Mul, 0xfc, 11, 0) // none, if there are no bytes
}

// grow is memory.grow on the variable that stands for the size.
func (f *meteredFunction) grow() {
	pages := f.m.pagesAt()
	f.local(opLocalSet, f.short)
	f.local(opLocalGet, f.short)
	f.op(opI64ExtendU)
	f.global(opGlobalGet, pages)
	f.op(opI64ExtendU, opI64Add)
	f.out = appendSigned(append(f.out, opI64Const), int64(f.pages))
	f.op(opI64LeU, opIf, typeI32)
	f.global(opGlobalGet, pages)
	f.global(opGlobalGet, pages)
	f.local(opLocalGet, f.short)
	f.op(opI32Add)
	f.global(opGlobalSet, pages)
	f.op(opElse)
	f.out = appendSigned(append(f.out, opI32Const), -1)
	f.op(opEnd)
}
