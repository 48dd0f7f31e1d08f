package transform

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// applyFunc is a transform for tests.
type applyFunc func(in *Record, out []Record) ([]Record, error)

func (f applyFunc) Apply(in *Record, out []Record) ([]Record, error) { return f(in, out) }

var errRefused = errors.New("refused")

// misbehaving is a catalog of transforms that do what registered ones must not do, when
// the value tells them to, and of one that multiplies records.
func misbehaving() catalog {
	c := catalog{}
	add := func(name string, apply applyFunc) {
		c.add(Definition{Name: name, Usage: name, Doc: "For tests.", Example: name, New: func(string) (Transform, error) { return apply, nil }})
	}
	add(identityName, identity{}.Apply)
	add("panics", func(in *Record, out []Record) ([]Record, error) {
		switch value := string(in.Value); {
		case strings.Contains(value, "panic text"):
			panic("told to")
		case strings.Contains(value, "panic error"):
			panic(errRefused)
		case strings.Contains(value, "panic index"):
			return append(out, in.Headers[len(in.Headers)].fields()), nil
		}
		return append(out, *in), nil
	})
	add("refuses", func(in *Record, out []Record) ([]Record, error) {
		if strings.Contains(string(in.Value), "refuse") {
			return append(out, *in), errRefused
		}
		return append(out, *in), nil
	})
	add("shrinks", func(in *Record, out []Record) ([]Record, error) {
		if strings.Contains(string(in.Value), "shrink") {
			return nil, nil
		}
		return append(out, *in), nil
	})
	add("moves", func(in *Record, out []Record) ([]Record, error) {
		return append(out, Record{Topic: "elsewhere", Partition: 9, Offset: 9, Value: in.Value}), nil
	})
	// repeat makes "3x" three records with the values "3x.0", "3x.1" and "3x.2".
	add("repeat", func(in *Record, out []Record) ([]Record, error) {
		digits, _, _ := strings.Cut(string(in.Value), "x")
		count, err := strconv.Atoi(digits)
		if err != nil {
			return append(out, *in), nil
		}
		for i := range count {
			r := *in
			r.Value = fmt.Appendf(nil, "%s.%d", in.Value, i)
			out = append(out, r)
		}
		return out, nil
	})
	return c
}

func (h Header) fields() Record { return Record{Value: h.Value} }

func parseWith(t testing.TB, c catalog, expr string) *Spec {
	t.Helper()
	spec, err := c.parse(expr, nil)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func values(records []Record) []string {
	var all []string
	for i := range records {
		all = append(all, string(records[i].Value))
	}
	return all
}

// failures are chains in which the stage named strikes first, last, in the middle, alone,
// and when it has already returned results.
var failures = []struct{ expr, value string }{
	{"%s", "%s"},
	{"%s | repeat", "2x %s"},
	{"repeat | %s", "2x %s"},
	{"identity | repeat | %s | repeat | identity", "2x %s"},
	{"repeat | repeat | repeat | %s", "2x %s"},
}

// failEach runs every chain of failures with a record that makes it fail and hands the
// error to check; it does this repeatedly, with good records in between that have to come
// out as they do from a chain that never failed.
func failEach(t *testing.T, name, trigger string, check func(t *testing.T, stage int, err error)) {
	t.Helper()
	for _, failure := range failures {
		expr := strings.ReplaceAll(failure.expr, "%s", name)
		t.Run(expr, func(t *testing.T) {
			spec := parseWith(t, misbehaving(), expr)
			stage := 1 + slices.IndexFunc(spec.stages, func(s stage) bool { return s.name == name })
			good := Record{Value: []byte("3x good")}
			want, err := spec.New().Apply(&good, nil)
			if err != nil {
				t.Fatal(err)
			}
			chain := spec.New()
			given := []Record{{Value: []byte("earlier")}}
			for range 3 {
				bad := Record{Value: []byte(strings.ReplaceAll(failure.value, "%s", trigger))}
				out, err := chain.Apply(&bad, given)
				if err == nil {
					t.Fatal("no error")
				}
				check(t, stage, err)
				if got := values(out); !slices.Equal(got, []string{"earlier"}) {
					t.Fatalf("after the error the results are %q", got)
				}
				out, err = chain.Apply(&good, given)
				if err != nil {
					t.Fatalf("the next record: %v", err)
				}
				if got := values(out[1:]); !slices.Equal(got, values(want)) {
					t.Fatalf("the next record became %q, want %q", got, values(want))
				}
			}
		})
	}
}

func TestChainPanic(t *testing.T) {
	failEach(t, "panics", "panic text", func(t *testing.T, stage int, err error) {
		var panicked *PanicError
		if !errors.As(err, &panicked) {
			t.Fatalf("%v is no *PanicError", err)
		}
		if panicked.Transform != "panics" || panicked.Stage != stage || panicked.Value != "told to" {
			t.Errorf("got transform %q, stage %d (want %d), value %v", panicked.Transform, panicked.Stage, stage, panicked.Value)
		}
		if !strings.Contains(string(panicked.Stack), "transform.misbehaving") {
			t.Errorf("the stack does not lead to the panic:\n%s", panicked.Stack)
		}
		if want := fmt.Sprintf("transform panics (stage %d) panicked: told to", stage); err.Error() != want {
			t.Errorf("the error is %q, want %q", err, want)
		}
	})
}

func TestChainPanicUnwraps(t *testing.T) {
	failEach(t, "panics", "panic error", func(t *testing.T, _ int, err error) {
		if !errors.Is(err, errRefused) {
			t.Errorf("%v is not the error it panicked with", err)
		}
	})
	failEach(t, "panics", "panic index", func(t *testing.T, _ int, err error) {
		var runtimeError runtime.Error
		if !errors.As(err, &runtimeError) {
			t.Errorf("%v is no runtime.Error", err)
		}
	})
}

func TestChainError(t *testing.T) {
	failEach(t, "refuses", "refuse", func(t *testing.T, stage int, err error) {
		var refused *Error
		if !errors.As(err, &refused) || !errors.Is(err, errRefused) {
			t.Fatalf("%v is no *Error around the cause", err)
		}
		if refused.Transform != "refuses" || refused.Stage != stage {
			t.Errorf("got transform %q, stage %d, want stage %d", refused.Transform, refused.Stage, stage)
		}
		if want := fmt.Sprintf("transform refuses (stage %d): refused", stage); err.Error() != want {
			t.Errorf("the error is %q, want %q", err, want)
		}
	})
}

// TestChainShrunk: "return nil, nil" for a dropped record would lose the results before it.
func TestChainShrunk(t *testing.T) {
	spec := parseWith(t, misbehaving(), "repeat | shrinks")
	in := Record{Value: []byte("2x shrink")}
	earlier := []Record{{Value: []byte("earlier")}}
	if out, err := spec.New().Apply(&in, earlier); !errors.Is(err, errShrunk) || len(out) != 1 {
		t.Errorf("got %q and the error %v", values(out), err)
	}
}

func TestChainRestoresCoordinates(t *testing.T) {
	for _, expr := range []string{"moves", "repeat | moves", "moves | repeat"} {
		in := Record{Topic: "orders", Partition: 3, Offset: 42, Value: []byte("2x")}
		given := []Record{{Topic: "other", Partition: 1, Offset: 1}}
		out, err := parseWith(t, misbehaving(), expr).New().Apply(&in, given)
		if err != nil {
			t.Fatal(err)
		}
		if out[0].Topic != "other" || out[0].Partition != 1 || out[0].Offset != 1 {
			t.Errorf("%s: an earlier result was changed to %s/%d@%d", expr, out[0].Topic, out[0].Partition, out[0].Offset)
		}
		for _, r := range out[1:] {
			if r.Topic != "orders" || r.Partition != 3 || r.Offset != 42 {
				t.Errorf("%s: result at %s/%d@%d", expr, r.Topic, r.Partition, r.Offset)
			}
		}
	}
}

// TestChainOrder: several results keep their order through the stages, as if each stage
// were finished before the next began, however many stages there are.
func TestChainOrder(t *testing.T) {
	for stages := range 6 {
		expr := strings.TrimSuffix(strings.Repeat("repeat | ", stages), " | ")
		want := []string{"3x"}
		for range stages {
			var next []string
			for _, value := range want {
				next = append(next, value+".0", value+".1", value+".2")
			}
			want = next
		}
		chain := parseWith(t, misbehaving(), expr).New()
		for run := range 3 {
			out, err := chain.Apply(&Record{Value: []byte("3x")}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := values(out); !slices.Equal(got, want) {
				t.Fatalf("%d stages, run %d: got %q, want %q", stages, run, got, want)
			}
		}
	}
}

// TestChainPinsNothing: a chain that waits for the next record must not keep the batches
// of earlier ones in memory.
func TestChainPinsNothing(t *testing.T) {
	chain := parseWith(t, misbehaving(), "repeat | repeat | panics | repeat | repeat").New()
	for _, value := range []string{"5x", "0x", "2x", "panic text", "3x panic text", "1x"} {
		_, err := chain.Apply(&Record{Value: []byte(value)}, nil)
		if panics := strings.Contains(value, "panic"); panics != (err != nil) {
			t.Fatalf("%q: %v", value, err)
		}
		for i, buffer := range chain.between {
			if len(buffer) != 0 {
				t.Errorf("after %q buffer %d holds %d records", value, i, len(buffer))
			}
			for _, r := range buffer[:cap(buffer)] {
				if r.Value != nil {
					t.Fatalf("after %q buffer %d still points at %q", value, i, r.Value)
				}
			}
		}
	}
	if _, err := chain.Apply(&Record{Value: []byte("7x")}, nil); err != nil {
		t.Fatal(err)
	}
	if kept := max(cap(chain.between[0]), cap(chain.between[1])); kept > keepCapacity {
		t.Errorf("the chain keeps room for %d records", kept)
	}
}

func TestSpecNewAfterTheFactsChanged(t *testing.T) {
	c := catalog{}
	present := true
	c.add(Definition{Name: "reads", Usage: "reads", Doc: "For tests.", Example: "reads", New: func(string) (Transform, error) {
		if !present {
			return nil, errRefused
		}
		return identity{}, nil
	}})
	spec := parseWith(t, c, "reads")
	present = false
	chain := spec.New()
	for range 2 {
		if out, err := chain.Apply(&Record{}, nil); !errors.Is(err, errRefused) || len(out) != 0 {
			t.Errorf("got %d results and the error %v", len(out), err)
		}
	}
}

// TestSpecSharedByLanes lets the race detector watch chains of one spec at work: of each kind that is replayed.
func TestSpecSharedByLanes(t *testing.T) {
	records := replayRecords(rand.New(rand.NewPCG(15, 16)))
	if records = some(records, 4); !racing {
		records = records[:20]
	}
	for _, expr := range slices.Concat(replayedNative, replayed) {
		spec, err := Parse(expr)
		if err != nil {
			t.Fatal(err)
		}
		var became [4][]outcome
		var lanes sync.WaitGroup
		for lane := range became {
			lanes.Go(func() {
				chain := spec.New()
				for i := range records {
					out, err := chain.Apply(&records[i], nil)
					became[lane] = append(became[lane], outcome{out, fmt.Sprint(err)})
				}
			})
		}
		lanes.Wait()
		for lane := range became {
			if !slices.EqualFunc(became[lane], became[0], outcome.same) {
				t.Errorf("%s: lanes got different results", expr)
			}
		}
	}
}

func applyAll(t testing.TB, tr Transform, records []Record) []Record {
	var out []Record
	var err error
	for i := range records {
		if out, err = tr.Apply(&records[i], out); err != nil {
			t.Errorf("record %d: %v", i, err)
			return nil
		}
	}
	return out
}

// TestChainIsBounded: what one record becomes has a limit in number and in size, at every
// stage, and the chain goes on with the next record.
func TestChainIsBounded(t *testing.T) {
	heavy := strings.Repeat("y", 1<<20)
	for _, test := range some([]struct {
		expr, value string
		want        int // 0: refused
		err         error
		stage       int
	}{
		{"repeat", "100000x", maxOutputs, nil, 0},
		{"repeat", "100001x", 0, errTooMany, 1},
		{"repeat | refuses", "100001x", 0, errTooMany, 2},
		{"repeat | repeat", "316x", 316 * 316, nil, 0},
		{"repeat | repeat", "317x", 0, errTooMany, 2},
		{"repeat | refuses", "60x" + heavy, 60, nil, 0},
		{"repeat | refuses", "64x" + heavy, 0, errTooHeavy, 2},
		{"refuses | refuses", strings.Repeat("y", maxResult+1), 1, nil, 0}, // one large record is the broker's to refuse
	}, 3) {
		chain := parseWith(t, misbehaving(), test.expr).New()
		given := []Record{{Value: []byte("earlier")}}
		out, err := chain.Apply(&Record{Value: []byte(test.value)}, given)
		if !errors.Is(err, test.err) || len(out) != 1+test.want {
			t.Errorf("%s of %.10q: %d results, %v", test.expr, test.value, len(out)-1, err)
		}
		if refused, is := errors.AsType[*Error](err); is && refused.Stage != test.stage {
			t.Errorf("%s of %.10q: stage %d, want %d", test.expr, test.value, refused.Stage, test.stage)
		}
		if out, err := chain.Apply(&Record{Value: []byte("1x")}, nil); err != nil || len(out) != 1 {
			t.Errorf("%s: the next record: %d results, %v", test.expr, len(out), err)
		}
	}
}
