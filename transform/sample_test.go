package transform

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// kept counts the records that a share lets through.
func kept(t *testing.T, arg string, records []Record) int {
	t.Helper()
	tr, err := newSample(arg)
	if err != nil {
		t.Fatal(err)
	}
	return len(applyAll(t, tr, records))
}

// TestSampleShare: the share that comes through is the share asked for, to within four
// standard deviations, also for the short, similar keys that real topics have.
func TestSampleShare(t *testing.T) {
	n := 50_000
	if racing {
		n = 5000
	}
	populations := map[string]func(i int) Record{
		"decimal keys":    func(i int) Record { return Record{Key: fmt.Append(nil, i)} },
		"prefixed keys":   func(i int) Record { return Record{Key: fmt.Appendf(nil, "customer-%08d", i)} },
		"two-byte keys":   func(i int) Record { return Record{Key: []byte{byte(i >> 8), byte(i)}} },
		"null, by offset": func(i int) Record { return Record{Topic: "orders", Offset: int64(i)} },
		"null, by partition": func(i int) Record {
			return Record{Topic: "orders", Partition: int32(i % 500), Offset: int64(i / 500)}
		},
	}
	for name, record := range populations {
		records := make([]Record, n)
		for i := range records {
			records[i] = record(i)
		}
		for arg, share := range map[string]float64{"1%": .01, "0.1": .1, "50%": .5, "99 %": .99, "1": 1, "100%": 1, "1e-2": .01} {
			got := kept(t, arg, records)
			if deviation := 4 * math.Sqrt(float64(n)*share*(1-share)); math.Abs(float64(got)-float64(n)*share) > deviation {
				t.Errorf("%s: sample(%s) kept %d of %d", name, arg, got, n)
			}
		}
	}
}

// TestSampleNested: raising the share only adds keys.
func TestSampleNested(t *testing.T) {
	small, err := newSample("10%")
	if err != nil {
		t.Fatal(err)
	}
	large, err := newSample("20%")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		r := Record{Key: fmt.Append(nil, i)}
		inSmall, _ := small.Apply(&r, nil)
		inLarge, _ := large.Apply(&r, nil)
		if len(inSmall) > len(inLarge) {
			t.Fatalf("the key %s is in the small sample only", r.Key)
		}
	}
}

// TestSampleByKeyOnly: where a record with a key comes from does not count.
func TestSampleByKeyOnly(t *testing.T) {
	for i := range 100 {
		key := fmt.Append(nil, i)
		hash := sampleHash(&Record{Key: key})
		if other := sampleHash(&Record{Topic: "t", Partition: 1, Offset: 2, Key: key, Value: key}); other != hash {
			t.Fatalf("the key %s has two hashes", key)
		}
	}
	a := sampleHash(&Record{Topic: "a", Offset: 1})
	for name, r := range map[string]Record{
		"topic":     {Topic: "b", Offset: 1},
		"partition": {Topic: "a", Partition: 1, Offset: 1},
		"offset":    {Topic: "a", Offset: 2},
		"empty key": {Topic: "a", Offset: 1, Key: []byte{}},
	} {
		if sampleHash(&r) == a {
			t.Errorf("the %s does not count for a null key", name)
		}
	}
}

func TestSampleHint(t *testing.T) {
	if _, err := newSample("25"); err == nil || !strings.Contains(err.Error(), "25%?") {
		t.Errorf("sample(25) got the error %v", err)
	}
}
