package transform

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Before each record, an instance is set back to what the guest was after its start: its
// memory and its variables. Nothing that a guest remembers outlives a record, and what a record
// becomes follows from the record alone, whatever the guest does. So an aborted epoch can be
// replayed, and a record that makes a guest trap leaves nothing behind.

// hostSteps is what a call of the host costs at least, in steps.
const hostSteps = 50

// maxSaid bounds, in bytes, what of a guest's own words gets into an error.
const maxSaid = 400

// wasmInstanceKey finds the instance in the context of a call.
type wasmInstanceKey struct{}

// errWASMLeave unwinds the guest's stack; why is in the instance.
var errWASMLeave = errors.New("leave the guest")

// wasmInstance is a guest of one chain.
type wasmInstance struct {
	guest     *wasmGuest
	mod       api.Module
	memory    *wasmMemory
	ctx       context.Context // it leads from a host call back to the instance
	variables []api.MutableGlobal
	steps     api.MutableGlobal
	depth     api.MutableGlobal
	alloc     api.Function
	entry     api.Function
	stack     [2]uint64
	used      bool // since it was set back

	// The record at hand.
	in      *Record
	topics  []string // that its results may name
	out     []Record
	given   int // length of out before it
	size    int
	payload []byte // Redpanda's form of the record
	reads   int    // of a batch header
	taken   bool   // the record was read
	fault   error
	said    []byte
	refusal string
	clock   int64 // nanoseconds since 1970
	drawn   uint64
}

// instance makes an instance that is ready for a record.
func (g *wasmGuest) instance() (*wasmInstance, error) {
	i, err := g.instantiate()
	if err != nil {
		return nil, err
	}
	i.memory.fill()
	i.used = true // a start function may have run once more
	return i, nil
}

func (g *wasmGuest) instantiate() (*wasmInstance, error) {
	memory, err := openWASMMemory(g.limits.pages, g.image)
	if err != nil {
		return nil, err
	}
	i := &wasmInstance{guest: g, memory: memory, clock: int64(time.Millisecond)}
	i.ctx = context.WithValue(context.Background(), wasmInstanceKey{}, i)
	ctx := experimental.WithMemoryAllocator(i.ctx, experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return memory }))
	i.mod, err = g.runtime.InstantiateModule(ctx, g.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		memory.Free()
		return nil, fmt.Errorf("start the guest: %w", i.reason(err))
	}
	for _, index := range g.variables {
		v, ok := i.mod.ExportedGlobal(wasmVariable(index)).(api.MutableGlobal)
		if !ok {
			i.close()
			return nil, fmt.Errorf("the guest has lost its variable %d", index)
		}
		i.variables = append(i.variables, v)
		switch index {
		case g.stepsAt:
			i.steps = v
		case g.depthAt:
			i.depth = v
		}
	}
	if g.redpanda {
		i.entry = i.mod.ExportedFunction("_start")
		return i, i.signature(i.entry, "_start", ":")
	}
	i.alloc, i.entry = i.mod.ExportedFunction(wasmAllocExport), i.mod.ExportedFunction(wasmTransformExport)
	if err := i.signature(i.alloc, wasmAllocExport, "i:i"); err != nil {
		return i, err
	}
	return i, i.signature(i.entry, wasmTransformExport, "ii:i")
}

func (i *wasmInstance) signature(f api.Function, name, want string) error {
	def := f.Definition()
	if got := letters(def.ParamTypes()) + ":" + letters(def.ResultTypes()); got != want {
		i.close()
		return fmt.Errorf("the guest exports %s with the signature %s: it has to be %s", name, got, want)
	}
	return nil
}

// close frees the instance with its memory.
func (i *wasmInstance) close() { _ = i.mod.Close(context.Background()) }

// reset makes the instance what it was when the guest had started.
func (i *wasmInstance) reset() {
	if i.used {
		i.memory.reset()
		for n, v := range i.variables {
			v.Set(i.guest.values[n])
		}
	}
	i.steps.Set(uint64(i.guest.limits.steps))
	i.used = true
}

// apply is Transform.Apply on an instance that may name topics.
func (i *wasmInstance) apply(in *Record, topics []string, out []Record) ([]Record, error) {
	i.reset()
	i.in, i.topics, i.out, i.given = in, topics, out, len(out)
	i.clock = max(in.Timestamp.UnixMilli(), 1) * int64(time.Millisecond)
	defer i.forget()
	var err error
	if i.guest.redpanda {
		err = i.applyRedpanda()
	} else {
		err = i.applyOwn()
	}
	if err == nil && i.memory.beyond() {
		err = errWASMBeyond
	}
	if err != nil {
		clear(i.out[len(out):])
		return out, err
	}
	return i.out, nil
}

// forget drops what belongs to the record.
func (i *wasmInstance) forget() {
	i.in, i.topics, i.out, i.given, i.size = nil, nil, nil, 0, 0
	i.reads, i.taken, i.fault, i.refusal, i.drawn = 0, false, nil, "", 0
	i.said = i.said[:0]
	if cap(i.payload) > 1<<20 {
		i.payload = nil
	}
}

// call calls a function of the guest with what is on i.stack.
func (i *wasmInstance) call(f api.Function) error {
	if err := f.CallWithStack(i.ctx, i.stack[:]); err != nil {
		return i.reason(err)
	}
	return nil
}

// reason says why a call has ended with an error.
func (i *wasmInstance) reason(err error) error {
	if i.fault != nil {
		return i.fault
	}
	switch {
	case i.steps != nil && int64(i.steps.Get()) < 0:
		return fmt.Errorf("the guest needs more than %d steps: it does not end, or the limit is too low (steps: %d)", i.guest.limits.steps, 10*i.guest.limits.steps)
	case i.depth != nil && uint32(i.depth.Get()) > maxDepth:
		return fmt.Errorf("the guest calls functions within functions more than %d deep", maxDepth)
	}
	text := strings.TrimPrefix(firstLine(err).Error(), "wasm error: ")
	return fmt.Errorf("the guest trapped: %s%s", text, i.words())
}

// words is what the guest has written about its end.
func (i *wasmInstance) words() string {
	if len(i.said) == 0 {
		return ""
	}
	text, _, _ := strings.Cut(strings.ToValidUTF8(string(i.said), "?"), "\n\ngoroutine ") // Go's stack says nothing here
	return ": " + strings.Join(strings.Fields(text), " ")
}

// leave ends the guest's work on the record, from a host call.
func (i *wasmInstance) leave(fault error) {
	i.fault = fault
	panic(errWASMLeave)
}

// spend takes steps for the work of the host.
func (i *wasmInstance) spend(steps int) {
	if i.steps != nil { // or the guest has a start function, which runs before it is ours
		i.steps.Set(i.steps.Get() - uint64(steps))
	}
}

// bytes is a part of the guest's memory, or nothing if it is not all there.
func (i *wasmInstance) bytes(at, length uint64) ([]byte, bool) {
	at, length = at&(1<<32-1), length&(1<<32-1) // the upper half of a parameter of 32 bits is not defined
	if at+length > uint64(i.memory.limit) {
		return nil, false
	}
	return i.memory.buf[at : at+length : at+length], true
}

// handed is a part of the guest's memory that it has given to the host: it has to be there.
func (i *wasmInstance) handed(at, length uint64) []byte {
	b, ok := i.bytes(at, length)
	if !ok {
		i.leave(fmt.Errorf("the guest points at %d bytes at %d, which its memory does not have", uint32(length), uint32(at)))
	}
	i.spend(hostSteps + len(b)/16)
	return b
}

// written is the same for the host to write to.
func (i *wasmInstance) written(at, length uint64) []byte {
	b := i.handed(at, length)
	i.memory.wrote(at&(1<<32-1), uint64(len(b)))
	return b
}

// emit appends a result.
func (i *wasmInstance) emit(r Record) {
	if i.in == nil {
		i.leave(errors.New("the guest writes a record at its start"))
	}
	if r.Target != "" && r.Target != i.in.Target {
		listed := false
		for _, topic := range i.topics {
			listed = listed || topic == r.Target
		}
		if !listed {
			i.leave(fmt.Errorf("the guest writes to the topic %.249q, which is not listed: add it to the expression (topics: ...)", r.Target))
		}
	}
	i.size += len(r.Key) + len(r.Value)
	for n := range r.Headers {
		i.size += len(r.Headers[n].Key) + len(r.Headers[n].Value)
	}
	switch {
	case len(i.out)-i.given == maxOutputs:
		i.leave(errTooMany)
	case i.size > maxResult:
		i.leave(errTooHeavy)
	}
	r.Topic, r.Partition, r.Offset = i.in.Topic, i.in.Partition, i.in.Offset
	i.out = append(i.out, r)
}

// random fills b with bytes that follow from the coordinates of the record alone.
func (i *wasmInstance) random(b []byte) {
	seed := []byte("eosbridge")
	if i.in != nil {
		seed = append(seed, i.in.Topic...)
		seed = binary.LittleEndian.AppendUint32(seed, uint32(i.in.Partition))
		seed = binary.LittleEndian.AppendUint64(seed, uint64(i.in.Offset))
	}
	for len(b) > 0 {
		block := sha256.Sum256(binary.LittleEndian.AppendUint64(seed, i.drawn))
		i.drawn++
		b = b[copy(b, block[:]):]
	}
}
