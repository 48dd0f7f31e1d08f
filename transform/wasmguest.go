package transform

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// The names by which a guest shows which interface it speaks. docs/wasm.md describes both.
const (
	wasmTransformExport = "eosbridge_v1_transform"
	wasmAllocExport     = "eosbridge_v1_alloc"
	wasmHostModule      = "eosbridge_v1"
	redpandaModule      = "redpanda_transform"
	wasiModule          = "wasi_snapshot_preview1"
)

// startFactor is how many times the steps of a record a guest has for its start.
const startFactor = 10

// wasmLimits bound what a guest does with one record.
type wasmLimits struct {
	pages uint32 // of memory, 64 KiB each
	steps int64
}

// wasmGuest is a module that was compiled and started: the model of all its instances.
type wasmGuest struct {
	limits      wasmLimits
	runtime     wazero.Runtime
	compiled    wazero.CompiledModule
	redpanda    bool // which of the two interfaces
	interpreted bool

	variables        []int // index of each variable that can change
	stepsAt, depthAt int
	values           []uint64 // of the variables, once the guest has started
	image            []byte   // of the memory, once the guest has started
}

// wasmGuests are the guests of this process by content and limits: compiling takes seconds,
// and an expression is parsed more than once.
var wasmGuests = struct { //nolint:gochecknoglobals // a cache of what is the same each time
	sync.Mutex
	known map[string]*wasmGuest
}{known: map[string]*wasmGuest{}}

func wasmGuestOf(module []byte, limits wasmLimits) (*wasmGuest, error) {
	key := wasmGuestKey(module, limits)
	wasmGuests.Lock()
	defer wasmGuests.Unlock()
	if guest := wasmGuests.known[key]; guest != nil {
		return guest, nil
	}
	guest, err := newWASMGuest(module, limits, !wasmCompiles())
	if err == nil {
		wasmGuests.known[key] = guest
	}
	return guest, err
}

func wasmGuestKey(module []byte, limits wasmLimits) string {
	return fmt.Sprintf("%x %d %d", sha256.Sum256(module), limits.pages, limits.steps)
}

// newWASMGuest meters a module, compiles it, and lets it start once to see how its memory and
// its variables then are.
func newWASMGuest(data []byte, limits wasmLimits, interpreted bool) (*wasmGuest, error) {
	module, err := parseWASM(data)
	if err != nil {
		return nil, err
	}
	metered, err := module.metered(limits.pages, limits.steps*startFactor)
	if err != nil {
		return nil, err
	}
	ctx := experimental.WithCompilationWorkers(context.Background(), runtime.GOMAXPROCS(0))
	config := wazero.NewRuntimeConfigInterpreter()
	if !interpreted {
		config = wazero.NewRuntimeConfigCompiler()
	}
	config = config.WithMemoryLimitPages(wasmMaxPages).WithDebugInfoEnabled(false)
	g := &wasmGuest{limits: limits, interpreted: interpreted, stepsAt: module.stepsAt(), depthAt: module.depthAt()}
	g.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err := g.load(ctx, module, metered); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *wasmGuest) load(ctx context.Context, module *wasmModule, metered []byte) (err error) {
	if err := g.link(ctx, module); err != nil {
		return err
	}
	if g.compiled, err = g.runtime.CompileModule(ctx, metered); err != nil {
		return fmt.Errorf("compile the module: %w", firstLine(err))
	}
	for i := range len(module.globals) + 3 {
		if i >= len(module.globals) || module.globals[i].mutable {
			g.variables = append(g.variables, i)
		}
	}
	first, err := g.instantiate()
	if err != nil {
		return err
	}
	defer first.close()
	if !g.redpanda && module.exportsFunction("_initialize") {
		if err := first.call(first.mod.ExportedFunction("_initialize")); err != nil {
			return fmt.Errorf("start the guest: %w", err)
		}
	}
	for _, v := range first.variables {
		g.values = append(g.values, v.Get())
	}
	if first.memory.beyond() {
		return fmt.Errorf("start the guest: %w", errWASMBeyond)
	}
	used := first.memory.limit
	for used > 0 && isZero(first.memory.buf[used-dirtyPage:used]) {
		used -= dirtyPage
	}
	g.image = bytes.Clone(first.memory.buf[:used])
	return nil
}

func (g *wasmGuest) close() { _ = g.runtime.Close(context.Background()) }

// link finds out which interface the module speaks and gives it what it imports.
func (g *wasmGuest) link(ctx context.Context, module *wasmModule) error {
	g.redpanda = slices.ContainsFunc(module.imports, func(i wasmImport) bool { return i.module == redpandaModule })
	switch {
	case g.redpanda && !module.exportsFunction("_start"):
		return fmt.Errorf("the module imports %s but exports no function _start: build it as a command, with a main function", redpandaModule)
	case !g.redpanda && (!module.exportsFunction(wasmTransformExport) || !module.exportsFunction(wasmAllocExport)):
		return fmt.Errorf("the module exports no functions %s and %s, and imports nothing of %s: docs/wasm.md says what a guest has to have",
			wasmAllocExport, wasmTransformExport, redpandaModule)
	}
	hosts := map[string]map[string]api.FunctionDefinition{}
	builders := map[string]wazero.HostModuleBuilder{}
	for _, i := range module.imports {
		kind := module.types[i.kind]
		call, err := hostFunction(i, kind)
		if err != nil {
			return err
		}
		if hosts[i.module] == nil {
			hosts[i.module], builders[i.module] = map[string]api.FunctionDefinition{}, g.runtime.NewHostModuleBuilder(i.module)
		}
		if _, twice := hosts[i.module][i.name]; twice {
			continue
		}
		hosts[i.module][i.name] = nil
		builders[i.module].NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
			call(ctx.Value(wasmInstanceKey{}).(*wasmInstance), stack)
		}), kind.params, kind.results).Export(i.name)
	}
	for name, builder := range builders {
		if _, err := builder.Instantiate(ctx); err != nil {
			return fmt.Errorf("prepare what the guest imports of %s: %w", name, firstLine(err))
		}
	}
	return nil
}

// hostCall is a function that a guest may call: the stack holds its arguments, then its result.
type hostCall func(i *wasmInstance, stack []uint64)

// hostFunctions are the functions of a module by name, each with its parameters and results as
// in "iI:i": i for 32 bits, I for 64.
type hostFunctions map[string]struct {
	signature string
	call      hostCall
}

// hostFunction finds the function that a guest asks for.
func hostFunction(i wasmImport, kind wasmType) (hostCall, error) {
	signature := letters(kind.params) + ":" + letters(kind.results)
	var known hostFunctions
	switch i.module {
	case wasmHostModule:
		known = eosbridgeFunctions()
	case redpandaModule:
		known = redpandaFunctions()
	case wasiModule:
		known = wasiFunctions()
		if _, has := known[i.name]; !has && strings.HasSuffix(signature, ":i") {
			return func(_ *wasmInstance, stack []uint64) { stack[0] = wasiUnknown }, nil
		}
	case "redpanda_schema_registry":
		return nil, errors.New("the guest uses Redpanda's schema registry: eosbridge gives a guest nothing but the record")
	}
	f, has := known[i.name]
	if !has {
		return nil, fmt.Errorf("the guest imports the function %s.%s: there is none for a guest of eosbridge (docs/wasm.md lists them)", i.module, i.name)
	}
	if f.signature != signature {
		return nil, fmt.Errorf("the guest imports %s.%s with the signature %s: it is %s", i.module, i.name, signature, f.signature)
	}
	return f.call, nil
}

func letters(kinds []byte) string {
	var b strings.Builder
	for _, kind := range kinds {
		switch kind {
		case typeI32:
			b.WriteByte('i')
		case typeI64:
			b.WriteByte('I')
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}

// firstLine leaves wazero's stacks out: the record's error is one line.
func firstLine(err error) error {
	line, _, more := strings.Cut(err.Error(), "\n")
	if !more {
		return err
	}
	return errors.New(line)
}
