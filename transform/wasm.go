package transform

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

func init() {
	Register(Definition{
		Name:  "wasm",
		Usage: "wasm(@file) or wasm(@file, topics: a b, memory: 32MiB, steps: 100000000)",
		Doc: "Makes of each record what a WebAssembly module in a file makes of it: a guest for eosbridge, or for Redpanda's Data Transforms. " +
			"The guest gets the whole record, tombstones too, and writes as many as it likes; topics: lists those that it may name. " +
			"It has no files, network, environment or other records, a clock that shows the record's timestamp, and forgets everything between two records. " +
			"It may use memory: up to 1024MiB, 32MiB if not given, and steps: loops and calls, a hundred million if not given; " +
			"a guest that traps, ends, or needs more of either refuses the record. The file is read once, at the start.",
		Example:   "wasm(@/etc/eosbridge/guest.wasm, topics: orders-eu orders-us)",
		ReadsFile: true,
		New:       newWASM,
	})
}

const (
	maxWASMFile     = 32 << 20 // bytes
	defaultWASMMem  = 32 << 20 // bytes
	defaultWASMStep = 100_000_000
	maxWASMSteps    = 1_000_000_000_000
)

// wasm hands records to a guest.
type wasm struct {
	guest    *wasmGuest
	topics   []string
	instance *wasmInstance // made when the first record comes
}

func newWASM(arg string) (Transform, error) {
	r := argReader{arg: arg}
	if !r.take("@") {
		return nil, r.fail("the module is missing: write @ and the name of its file")
	}
	r.space()
	start := r.at
	path, _, err := r.word("the name of the file", ",")
	if err != nil {
		return nil, err
	}
	t, limits, err := readWASMOptions(&r)
	if err != nil {
		return nil, err
	}
	module, err := readBounded(path, maxWASMFile)
	if err != nil {
		return nil, errAt(start, err)
	}
	if t.guest, err = wasmGuestOf(module, limits); err != nil {
		return nil, errAt(start, fmt.Errorf("%s: %w", path, err))
	}
	return t, nil
}

func readWASMOptions(r *argReader) (*wasm, wasmLimits, error) {
	t, limits := &wasm{}, wasmLimits{pages: defaultWASMMem / wasmPage, steps: defaultWASMStep}
	for {
		more, err := r.comma()
		if err != nil || !more {
			return t, limits, err
		}
		switch {
		case r.option("topics"):
			err = t.readTopics(r)
		case r.option("memory"):
			limits.pages, err = readWASMMemory(r)
		case r.option("steps"):
			limits.steps, err = readWASMSteps(r)
		default:
			err = r.unexpected("write topics:, memory: or steps: here")
		}
		if err != nil {
			return nil, limits, err
		}
	}
}

func (t *wasm) readTopics(r *argReader) error {
	r.space()
	start := r.at
	list, _, err := r.word("a topic", ",")
	if err != nil {
		return err
	}
	for _, topic := range strings.Fields(list) {
		if err := validTopic(topic); err != nil {
			return errAt(start, err)
		}
		t.topics = append(t.topics, topic)
	}
	slices.Sort(t.topics)
	t.topics = slices.Compact(t.topics)
	return nil
}

func readWASMMemory(r *argReader) (uint32, error) {
	r.space()
	start := r.at
	text, _, err := r.word("the limit of the memory", ",")
	if err != nil {
		return 0, err
	}
	digits, isMiB := strings.CutSuffix(text, "MiB")
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 16)
	if err != nil || !isMiB || n == 0 || n > wasmMaxPages/16 {
		return 0, errAt(start, fmt.Errorf("the limit %q is no size from 1MiB to 1024MiB: write for example 64MiB", text))
	}
	return uint32(n) * 16, nil
}

func readWASMSteps(r *argReader) (int64, error) {
	r.space()
	start := r.at
	text, _, err := r.word("the number of steps", ",")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > maxWASMSteps {
		return 0, errAt(start, fmt.Errorf("%q is no number of steps from 1 to %d", text, int64(maxWASMSteps)))
	}
	return n, nil
}

// Fork makes another instance of the same guest.
func (t *wasm) Fork() Transform { return &wasm{guest: t.guest, topics: t.topics} }

// Targets names the topics that the guest may name.
func (t *wasm) Targets() []string { return t.topics }

// Interpreted tells whether the guest could not be compiled here.
func (t *wasm) Interpreted() bool { return t.guest.interpreted }

func (t *wasm) Apply(in *Record, out []Record) ([]Record, error) {
	if t.instance == nil {
		instance, err := t.guest.instance()
		if err != nil {
			return nil, err
		}
		// wazero keeps every instance until it is closed, and a chain is just dropped.
		runtime.AddCleanup(t, (*wasmInstance).close, instance)
		t.instance = instance
	}
	results, err := t.instance.apply(in, t.topics, out)
	runtime.KeepAlive(t) // or its memory might go while it is at work
	return results, err
}

var errWASMRefused = errors.New("the guest refused the record")
