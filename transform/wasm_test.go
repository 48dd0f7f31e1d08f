package transform

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// goGuests builds the guests in Go once for all tests of a process; Go's cache has what they
// need of the standard library after the first time.
var goGuests = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "eosbridge-guests")
	if err != nil {
		return "", err
	}
	goGuestsDir = dir
	for name, mode := range map[string]string{"go": "c-shared", "redpanda": "exe"} {
		build := exec.Command("go", "build", "-buildmode="+mode, "-ldflags=-s -w", "-o", filepath.Join(dir, name+".wasm"), ".")
		build.Dir = filepath.Join("testdata", "guests", name) // that of the SDK is a module of its own
		build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
		if said, err := build.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("build the guest %s: %w\n%s", name, err, said)
		}
		if racing {
			if err := interpret(filepath.Join(dir, name+".wasm")); err != nil {
				return dir, err
			}
		}
	}
	return dir, nil
})

// interpret makes a guest known that is not compiled: to compile one in Go takes twelve seconds under the race detector.
func interpret(path string) error {
	module, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	limits := wasmLimits{pages: defaultWASMMem / wasmPage, steps: defaultWASMStep}
	guest, err := newWASMGuest(module, limits, true)
	if err == nil {
		wasmGuests.known[wasmGuestKey(module, limits)] = guest
	}
	return err
}

var goGuestsDir string

func goGuest(t testing.TB, name string) string {
	t.Helper()
	dir, err := goGuests()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name+".wasm")
}

func TestMain(m *testing.M) {
	code := m.Run()
	if goGuestsDir != "" {
		_ = os.RemoveAll(goGuestsDir)
	}
	os.Exit(code)
}

// guestOf makes a guest of a module with little to spare.
func guestOf(t testing.TB, module []byte, interpreted bool) *wasm {
	t.Helper()
	guest, err := newWASMGuest(module, wasmLimits{pages: 16, steps: 100_000}, interpreted)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guest.close)
	return &wasm{guest: guest}
}

// wasmFaults are values for the guest manners, and what its error says.
var wasmFaults = map[string]string{
	"l": "the guest needs more than 100000 steps: it does not end",
	"u": "the guest trapped: unreachable",
	"f": "the guest refused the record: no, thank you",
	"n": "the guest refused the record with 7",
	"g": "the guest trapped: unreachable", // out of memory
	"b": "the guest needs more than 100000 steps",
	"m": "which its memory does not have",
	"x": "a record of 39 bytes",
	"y": "lengths do not fit together",
	"w": "the guest trapped: out of bounds memory access",
}

// TestWASMFaults: whatever a guest does ends in the record's error, and the next record finds
// the instance as if nothing had been. Compiled and interpreted it is the same.
func TestWASMFaults(t *testing.T) {
	for engine, interpreted := range map[string]bool{"compiled": false, "interpreted": true} {
		guest := guestOf(t, manners(), interpreted)
		check := func(value, want string) {
			t.Helper()
			before := []Record{{Topic: "before"}}
			out, err := guest.Apply(&Record{Topic: "orders", Key: []byte("k"), Value: []byte(value)}, before)
			if !isFault(err) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || len(out) != 1 {
				t.Errorf("%s: %q became %d results and %v, want the error %q", engine, value, len(out)-1, err, want)
			}
			// The counter in the guest's memory stands at one, whatever there was before.
			out, err = guest.Apply(&Record{Value: []byte("c")}, nil)
			if err != nil || len(out) != 1 || string(out[0].Value) != "1" {
				t.Fatalf("%s: after %q the next record became %v, %v", engine, value, values(out), err)
			}
		}
		for value, want := range wasmFaults {
			check(value, want)
		}
		if interpreted {
			check("r", "the guest trapped: stack overflow") // wazero allows its interpreter less than we do
		} else {
			check("r", "the guest calls functions within functions more than 20000 deep")
		}
	}
}

func isFault(err error) bool { return err != nil && err.Error() != "" }

// TestWASMNothingLeaks: an instance that has seen other records makes of a record what a fresh
// one makes of it, and the interpreter what the compiler makes of it.
func TestWASMNothingLeaks(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	module := manners()
	used, interpreted := guestOf(t, module, false), guestOf(t, module, true)
	records := corpus(t)
	for value := range wasmFaults {
		records = append(records, Record{Value: []byte(value)})
	}
	for range 300 {
		r := records[rng.IntN(len(records))]
		if len(r.Value) > 0 && (r.Value[0] == 'r' || r.Value[0] == 'b') {
			continue // how deep, and how many results, is not the same in both
		}
		fresh := used.Fork()
		want := outcomeOf(t, fresh, &r)
		for name, tr := range map[string]Transform{"used": used, "interpreted": interpreted} {
			if got := outcomeOf(t, tr, &r); !got.same(want) {
				t.Fatalf("%+v became\n%+v when %s, and\n%+v", r, got, name, want)
			}
		}
	}
}

// TestWASMResultsAreCopies: the guest's memory is set back, the results stay.
func TestWASMResultsAreCopies(t *testing.T) {
	guest := guestOf(t, manners(), false)
	in := Record{Key: []byte("k"), Value: []byte("2 value"), Headers: []Header{{"h", []byte("v")}, {"n", nil}, {"", []byte{}}}, Timestamp: time.UnixMilli(7)}
	out, err := guest.Apply(&in, nil)
	if err != nil || len(out) != 2 {
		t.Fatal(len(out), err)
	}
	clear(guest.instance.memory.buf)
	for i := range out {
		if got, want := formatResult(&out[i]), formatResult(&in); got != want {
			t.Errorf("result %d is %s, want %s", i, got, want)
		}
	}
}

// TestWASMGuestGo: the example in Go does what it says.
func TestWASMGuestGo(t *testing.T) {
	chain := chainOf(t, "wasm(@"+goGuest(t, "go")+")")
	for _, doc := range [][]byte{order("eu", "250.10"), order("us", "250.10"), order("eu", "100"), order("eu", "100.01"), []byte(`{"region":"eu","amount":1e3}`)} {
		in := Record{Topic: "orders", Key: []byte("k"), Value: doc, Headers: []Header{{"h", []byte("v")}}, Timestamp: time.UnixMilli(5)}
		want, err := nativeOrder(&in, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			got, err := chain.Apply(&in, nil)
			if err != nil || !slices.EqualFunc(got, want, sameRecord) {
				t.Fatalf("%s became %v, %v, want %v", doc, values(got), err, values(want))
			}
		}
	}
	if out, err := chain.Apply(&Record{Value: nil}, nil); err != nil || len(out) > 0 {
		t.Errorf("a tombstone became %d records, %v", len(out), err)
	}
	large := append(append([]byte(`{"region":"eu","amount":101,"note":"`), bytes.Repeat([]byte("x"), 1<<20)...), `"}`...)
	if out, err := chain.Apply(&Record{Value: large}, nil); err != nil || len(out) != 1 || len(out[0].Value) != len(large)+len(`,"tier":"gold"`) {
		t.Errorf("a value of 1 MiB became %d records, %v", len(out), err)
	}
	if _, err := chain.Apply(&Record{Value: make([]byte, 40<<20)}, nil); err == nil {
		t.Error("a value of 40 MiB fits into 32 MiB")
	}
	if out, err := chain.Apply(&Record{Value: order("eu", "101")}, nil); err != nil || len(out) != 1 {
		t.Errorf("after that, %d records, %v", len(out), err)
	}
}

// TestWASMGuestRust: the example in Rust, where its compiler has the target.
func TestWASMGuestRust(t *testing.T) {
	module := rustGuest(t)
	if module == "" {
		t.Log("rustc has no target wasm32-unknown-unknown here: the guest in Rust is not tried")
		return
	}
	chain := chainOf(t, "wasm(@"+module+")")
	for _, doc := range [][]byte{order("eu", "250.10"), order("us", "250.10"), order("eu", "100"), order("eu", "100.01")} {
		in := Record{Topic: "orders", Value: doc, Timestamp: time.UnixMilli(5)}
		want, _ := nativeOrder(&in, nil)
		if got, err := chain.Apply(&in, nil); err != nil || !slices.EqualFunc(got, want, sameRecord) {
			t.Fatalf("%s became %v, %v, want %v", doc, values(got), err, values(want))
		}
	}
}

// rustGuest builds the example in Rust, or answers nothing.
func rustGuest(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "order.wasm")
	err := exec.CommandContext(t.Context(), "rustc", "--edition", "2021", "--target", "wasm32-unknown-unknown", "--crate-type", "cdylib",
		"-C", "opt-level=3", "-C", "panic=abort", "-o", path, "testdata/guests/rust/order.rs").Run()
	if err != nil {
		return ""
	}
	return path
}

// TestWASMRedpanda: a guest that is built with Redpanda's SDK.
func TestWASMRedpanda(t *testing.T) {
	chain := chainOf(t, "wasm(@"+goGuest(t, "redpanda")+", topics: other)")
	in := Record{Topic: "orders", Partition: 3, Offset: 42, Key: nil, Headers: []Header{{"a", nil}, {"a", []byte{}}}, Timestamp: time.UnixMilli(1234567)}
	apply := func(value string) ([]Record, error) {
		r := in
		r.Value = []byte(value)
		return chain.Apply(&r, nil)
	}
	for range 2 {
		same, err := apply("plain")
		want := in
		want.Value = []byte("plain")
		if err != nil || len(same) != 1 || !sameRecord(same[0], want) {
			t.Fatalf("became %v, %v", same, err)
		}
		two, err := apply("two")
		if err != nil || len(two) != 2 || two[0].Target != "" || two[1].Target != "other" || string(two[1].Value) != "two" || !two[1].Timestamp.Equal(in.Timestamp) {
			t.Fatalf("became %v, %v", two, err)
		}
		// No environment, the clock of the record, and no memory of other records.
		env, err := apply("env")
		if err != nil || string(env[0].Value) != "|1234567|1234567|0" {
			t.Fatalf("became %q, %v", values(env), err)
		}
		if _, err := apply("panic"); err == nil || !strings.Contains(err.Error(), "the guest has ended with status 2: panic: asked to") {
			t.Fatalf("a panic became %v", err)
		}
		if _, err := apply("error"); err == nil || !strings.Contains(err.Error(), "asked to refuse") {
			t.Fatalf("a record that the guest refuses became %v", err)
		}
	}
	strict := chainOf(t, "wasm(@"+goGuest(t, "redpanda")+")")
	in.Value = []byte("two")
	if _, err := strict.Apply(&in, nil); err == nil || !strings.Contains(err.Error(), `"other", which is not listed`) {
		t.Errorf("a topic that is not listed became %v", err)
	}
}

// TestWASMModules: what is wrong with a module is said when the expression is read.
func TestWASMModules(t *testing.T) {
	with := func(change func(a *assembly)) []byte {
		a := &assembly{more: map[byte][]byte{}}
		change(a)
		a.allocates()
		a.export(wasmTransformExport, 0, a.function(kindRun, 0, i32(0)))
		return a.module()
	}
	nothing := func(*assembly) {}
	importing := func(module, name string, kind byte) []byte {
		return with(func(a *assembly) { a.importing(module, name, kind) })
	}
	starting := func(code ...[]byte) []byte {
		return with(func(a *assembly) {
			a.importing(wasmHostModule, "emit", kindEmit)
			a.export("_initialize", 0, a.function(kindVoid, 0, code...))
		})
	}
	section := func(id byte, content ...byte) []byte {
		return with(func(a *assembly) { a.more[id] = content })
	}
	for _, row := range []struct {
		module []byte
		want   string
	}{
		{[]byte("#!/bin/sh"), "no WebAssembly module: it does not begin"},
		{[]byte("\x00asm\x0d\x00\x01\x00"), "a component is none"},
		{manners()[:300], "ends early"},
		{append(with(nothing), 13, 1, 0), "a section of kind 13"},
		{append(with(nothing), 1, 1, 0), "the section 1 twice"},
		{(&assembly{}).module(), "exports no functions eosbridge_v1_alloc and"},
		{importing("env", "abort", kindVoid), "the function env.abort: there is none for a guest"},
		{importing(wasmHostModule, "stop", kindVoid), "the function eosbridge_v1.stop: there is none"},
		{importing(wasmHostModule, "emit", kindVoid), "eosbridge_v1.emit with the signature :: it is ii:"},
		{importing(wasiModule, "sock_open", kindVoid), "wasi_snapshot_preview1.sock_open: there is none"},
		{importing(redpandaModule, "check_abi_version_2", kindVoid), "exports no function _start"},
		{importing(redpandaModule, "check_abi_version_9", kindVoid), "exports no function _start"},
		{importing("redpanda_schema_registry", "check_abi_version_0", kindVoid), "schema registry"},
		{section(wasmMemories, 0), "has no memory of its own"},
		{section(wasmMemories, 1, 3, 1, 2), "is shared or of 64 bits"},
		{with(func(a *assembly) { a.pages = 32 }), "begins with 2048 KiB of memory"},
		{section(wasmTables, 1, 0x70, 0, 0x80, 0x80, 0x80, 8), "begin with 16777216 places"},
		{section(wasmImports, append([]byte{1, 3}, "env\x06memory\x02\x00\x01"...)...), "which is no function: a guest has its own memory"},
		{starting([]byte{0xfe, 3, 0}), "the instruction 0xfe"},
		{starting([]byte{0xfc, 200, 1}), "the instruction 0xfc 200"},
		{starting([]byte{0xfc, 9, 0}), "changes a table or drops a segment"},
		{starting([]byte{opI32Add}), "compile the module"},
		{starting(endless), "start the guest: the guest needs more than"},
		{starting([]byte{opUnreachable}), "start the guest: the guest trapped: unreachable"},
		{starting(i32(1024), i32(wasmFrameHead), invoking(0)), "start the guest: the guest writes a record at its start"},
		{with(func(a *assembly) { a.export(wasmAllocExport, 0, a.function(kindRun, 0, i32(0))) }), "compile the module: "}, // exported twice
	} {
		guest, err := newWASMGuest(row.module, wasmLimits{pages: 16, steps: 100_000}, true)
		if err == nil {
			guest.close()
		}
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("got the error %v, want %q", err, row.want)
		}
	}
	a := &assembly{}
	a.export(wasmAllocExport, 0, a.function(kindRun, 0, i32(0)))
	a.export(wasmTransformExport, 0, a.function(kindRun, 0, i32(0)))
	if _, err := newWASMGuest(a.module(), wasmLimits{pages: 16, steps: 100_000}, true); err == nil || !strings.Contains(err.Error(), "the signature ii:i: it has to be i:i") {
		t.Errorf("an export of another type gives %v", err)
	}
}

// TestWASMMetering: what is added to a function changes nothing but what it counts.
func TestWASMMetering(t *testing.T) {
	a := &assembly{}
	a.allocates()
	two := a.function(kindTwo, 0, getting(0), i32(5), []byte{0x4a, opIf, blockVoid}, getting(0), []byte{opI64Const, 1, opReturn, opEnd}, i32(0), invoking(0), []byte{0x1a}, i32(9), []byte{opI64Const, 2})
	run := a.function(kindRun, 2,
		// local 2 = two(length) * 10 + two(0)
		getting(1), invoking(two), []byte{0xa7, opI32Add}, i32(100), []byte{0x6c}, setting(2), // i32.wrap_i64, i32.mul
		i32(0), invoking(two), []byte{0xa7, opI32Add}, getting(2), []byte{opI32Add})
	a.export(wasmTransformExport, 0, run)
	// two(50) = (50, 1), two(0) = (9, 2): (50+1)*100 + 9+2
	_, err := guestOf(t, a.module(), false).Apply(&Record{Topic: "0123456789"}, nil)
	if err == nil || !strings.HasSuffix(err.Error(), "with 5111") {
		t.Errorf("the guest answered %v, want 5111", err)
	}
}

// isSetBack checks that an instance's memory is the image again.
func isSetBack(t *testing.T, i *wasmInstance) {
	t.Helper()
	i.reset()
	image := make([]byte, len(i.memory.buf))
	copy(image, i.guest.image)
	if !bytes.Equal(i.memory.buf, image) {
		for at := range image {
			if image[at] != i.memory.buf[at] {
				t.Fatalf("the byte %#x is %#x, want %#x", at, i.memory.buf[at], image[at])
			}
		}
	}
}

// TestWASMMemoryIsSetBack: whatever writes to memory, nothing of it is left for the next record.
func TestWASMMemoryIsSetBack(t *testing.T) {
	vector := append([]byte{0xfd, 12}, bytes.Repeat([]byte{0xaa}, 16)...)
	long, single, double := []byte{opI64Const, 0x7f}, []byte{0x43, 1, 2, 3, 4}, []byte{0x44, 1, 2, 3, 4, 5, 6, 7, 8}
	var stores [][]byte
	for n, s := range []struct {
		value []byte
		op    []byte
	}{
		{i32(-1), []byte{0x36, 0, 0}},
		{i32(-1), []byte{0x3a, 0, 0}},
		{i32(-1), []byte{0x3b, 0, 0}},
		{long, []byte{0x37, 0, 0}},
		{long, []byte{0x3c, 0, 0}},
		{long, []byte{0x3d, 0, 0}},
		{long, []byte{0x3e, 0, 0}},
		{single, []byte{0x38, 0, 0}},
		{double, []byte{0x39, 0, 0}},
		{vector, []byte{0xfd, 11, 0, 0}},
		{vector, []byte{0xfd, 88, 0, 0, 3}},
		{vector, []byte{0xfd, 91, 0, 0, 1}},
		{i32(-1), []byte{0x36, 0, 0xff, 0x1f}}, // with an offset of 4095
	} {
		at := int64((n+3)*dirtyPage - 1) // across the end of a page
		stores = append(stores, bytes.Join([][]byte{i32(at), s.value, s.op}, nil))
	}
	for _, many := range [][3]int64{{100_000, 7, 20_000}, {150_000, 7, 0}, {0, 7, 0}, {1<<20 - 5, 7, 5}, {1 << 20, 7, 0}} {
		stores = append(stores, bytes.Join([][]byte{i32(many[0]), i32(many[1]), i32(many[2]), {0xfc, 11, 0}}, nil))
	}
	stores = append(stores, bytes.Join([][]byte{i32(300_000), i32(2*dirtyPage - 100), i32(9000), {0xfc, 10, 0, 0}}, nil))
	for _, interpreted := range []bool{false, true} {
		a := &assembly{}
		a.allocates()
		a.export(wasmTransformExport, 0, a.function(kindRun, 0, append(stores, i32(0))...))
		guest := guestOf(t, a.module(), interpreted)
		for range 2 {
			if _, err := guest.Apply(&Record{Value: []byte("v")}, nil); err != nil {
				t.Fatal(err)
			}
			if guest.instance.memory.buf[3*dirtyPage] == 0 {
				t.Fatal("nothing was written")
			}
			isSetBack(t, guest.instance)
		}
	}
	wild := &assembly{}
	wild.allocates()
	wild.export(wasmTransformExport, 0, wild.function(kindRun, 0, i32(1<<20), i32(0), i32(300), []byte{0xfc, 11, 0}, i32(0)))
	guest := guestOf(t, wild.module(), false)
	for range 2 {
		if _, err := guest.Apply(&Record{}, nil); !errors.Is(err, errWASMBeyond) {
			t.Errorf("a guest that writes over the map: %v", err)
		}
		isSetBack(t, guest.instance)
	}
}

// TestWASMGoIsSetBack: the same of a guest with a runtime of its own.
func TestWASMGoIsSetBack(t *testing.T) {
	spec, err := Parse("wasm(@" + goGuest(t, "go") + ")")
	if err != nil {
		t.Fatal(err)
	}
	guest := spec.stages[0].first.(*wasm).Fork().(*wasm)
	sizes := []int{100, 5 << 20, 10} // the second is more than is set back page by page
	if racing {
		sizes[1] = 1000 // or the interpreter looks at it for 20 s
	}
	for _, size := range sizes {
		_, _ = guest.Apply(&Record{Value: append(order("eu", "101"), bytes.Repeat([]byte(" "), size)...)}, nil)
		isSetBack(t, guest.instance)
	}
}

// TestWASMDropped: an instance goes when its chain does.
func TestWASMDropped(t *testing.T) {
	guest := guestOf(t, manners(), true)
	fork := guest.Fork()
	if _, err := fork.Apply(&Record{}, nil); err != nil {
		t.Fatal(err)
	}
	instance := fork.(*wasm).instance
	instance.close()
	if instance.memory.buf != nil {
		t.Error("the memory of a closed instance is still there")
	}
}

// FuzzWASMResult: whatever a guest hands back is a record or an error, and what is a record is
// what the guest has written.
func FuzzWASMResult(f *testing.F) {
	for _, r := range corpus(f)[:40] {
		frame := make([]byte, frameSize(&r))
		writeFrame(frame, &r)
		f.Add(frame)
		f.Add(appendPayload(nil, &r))
	}
	f.Add(append(make([]byte, 36), 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := readFrame(bytes.Clone(data)); err == nil {
			r.Topic, r.Offset, r.Partition = "", 0, 0
			frame := make([]byte, frameSize(&r))
			writeFrame(frame, &r)
			again, err := readFrame(frame)
			again.Topic = ""
			if err != nil || !sameRecord(r, again) {
				t.Fatalf("%+v became %+v, %v", r, again, err)
			}
		}
		if r, err := readPayload(bytes.Clone(data)); err == nil {
			if again, err := readPayload(appendPayload(nil, &r)); err != nil || !sameRecord(r, again) {
				t.Fatalf("%+v became %+v, %v", r, again, err)
			}
		}
		_, _ = readWriteOptions(data)
	})
}

// FuzzWASMModule: any module is refused, or runs within its limits and twice alike.
func FuzzWASMModule(f *testing.F) {
	f.Add(manners(), []byte("c"))
	f.Add(manners(), []byte("l"))
	f.Fuzz(func(t *testing.T, module, value []byte) {
		definition := Definition{New: func(string) (Transform, error) {
			guest, err := newWASMGuest(module, wasmLimits{pages: 16, steps: 10_000}, true)
			if err != nil {
				return nil, err
			}
			t.Cleanup(guest.close)
			return &wasm{guest: guest}, nil
		}}
		built, err := definition.build("", nil)
		if err != nil {
			return
		}
		in := Record{Topic: "t", Key: []byte("k"), Value: value}
		one := applyOne(t, built, &in)
		if two := applyOne(t, built.(Forker).Fork(), &in); !slices.Equal(one, two) {
			t.Fatalf("%q and %q", one, two)
		}
	})
}
