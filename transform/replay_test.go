package transform

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// replayedNative are chains of the transforms without an expression language, on the fields
// of hardValues and randomJSON, under the property of replay.
var replayedNative = []string{
	`json_set(amount={"n":1.10})`,
	`json_set(list[*]=0)`,
	`json_insert(a=offset) | json_insert(b.c=key)`,
	`json_delete(amount, a.b, list[0])`,
	`json_keep(id, list[*].x, a.a)`,
	`json_rename(amount=sum, a.b="é\n")`,
	`json_mask(amount, list[*].x)`,
	`json_mask(amount, id, secret: testdata/mask.secret)`,
	`json_flatten(_)`,
	`json_explode(list)`,
	`json_extract(a)`,
	`json_hoist(payload)`,
	`json_cast(amount=string, id=number)`,
	`json_time(amount, unix, rfc3339)`,
	`key_from_json(id)`,
	`key_from_json(id, a.b)`,
	`header_from_json(amount=amount, all=a)`,
	`route_by_json(region, eu=orders-eu, *=orders-other)`,
	`route_by_topic(orders=a, *=b)`,
	`timestamp_from_json(amount, unix)`,
	"regex_replace(`[0-9]{3}(.)`, `<$1>`)",
	"regex_replace(list[*], `(?i)E|\\x{fffd}`, `\"`)",
	`compress(gzip)`,
	`compress(zstd)`,
	`compress(gzip) | decompress(gzip)`,
	`compress(zstd) | decompress(zstd)`,
	`drop_header(trace) | drop_tombstones | filter_header(h) | sample(90%)`,
	`identity | set_header(h=1) | set_key_from_header(h) | route(a)`,
}

// TestReplayNative: whatever a record holds, every instance makes the same of it, byte for
// byte, and leaves the record alone. The instances have seen other records before.
func TestReplayNative(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	values := hardValues()
	for range 50 {
		values = append(values, []byte(`{"amount":`+randomJSON(rng, 1)+`,"id":`+randomJSON(rng, 0)+`,"list":[`+randomJSON(rng, 3)+`],"a":`+randomJSON(rng, 3)+`}`))
		values = append(values, []byte(randomJSON(rng, 4)))
	}
	for _, expr := range replayedNative {
		t.Run(expr, func(t *testing.T) {
			used, fresh, results := chainOf(t, expr), chainOf(t, expr), 0
			for _, i := range rng.Perm(len(values)) {
				if rng.IntN(8) == 0 {
					fresh = chainOf(t, expr)
				}
				in := Record{Topic: "orders", Offset: int64(i), Key: []byte("k"), Value: values[i], Headers: []Header{{"h", nil}}, Timestamp: time.UnixMilli(1)}
				was := bytes.Clone(in.Value)
				first, err := used.Apply(&in, nil)
				second, errAgain := fresh.Apply(&in, nil)
				if (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() {
					t.Fatalf("%.200q: %v, then %v", was, err, errAgain)
				}
				if !slices.EqualFunc(first, second, sameRecord) {
					t.Fatalf("%.200q became %d results, then %d others", was, len(first), len(second))
				}
				if !bytes.Equal(was, in.Value) {
					t.Fatalf("the value %.200q was altered", was)
				}
				results += len(first)
			}
			if results == 0 {
				t.Error("no record got through: the test shows nothing")
			}
		})
	}
}

func sameRecord(a, b Record) bool {
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	return a.Topic == b.Topic && a.Partition == b.Partition && a.Offset == b.Offset && a.Target == b.Target &&
		same(a.Key, b.Key) && same(a.Value, b.Value) && a.Timestamp.Equal(b.Timestamp) &&
		slices.EqualFunc(a.Headers, b.Headers, func(a, b Header) bool { return a.Key == b.Key && same(a.Value, b.Value) })
}

// TestReplayCoversAll: a new transform needs a chain in one of the two lists.
func TestReplayCoversAll(t *testing.T) {
	for _, d := range Definitions() {
		uses := func(expr string) bool {
			spec, err := Parse(expr)
			return err == nil && slices.ContainsFunc(spec.stages, func(s stage) bool { return s.name == d.Name })
		}
		if !slices.ContainsFunc(replayedNative, uses) && !slices.ContainsFunc(replayed, uses) {
			t.Errorf("%s is in no chain that is replayed", d.Name)
		}
	}
}
