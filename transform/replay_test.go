package transform

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// hardValues are texts that a decoder may change, or break over.
func hardValues() [][]byte {
	deep := func(n int) string { return strings.Repeat(`{"a":[`, n) + "1.10" + strings.Repeat("]}", n) }
	return [][]byte{
		nil,
		{},
		[]byte("null"), []byte(" \n{} "), []byte("[]"), []byte(`"text"`), []byte("1.10"), []byte("-0"),
		[]byte(`{"id":9007199254740993,"amount":1.10,"big":123456789012345678901234567890,"exp":1e3,"tiny":1E-400}`),
		[]byte(`{"amount":1,"amount":2,"z":1,"a":2}`),
		[]byte("{\"amount\":5,\"name\":\"\xff\xfe\"}"),
		[]byte(`{"amount":5,"name":"\ud83d\ude00 \u00e9 \/ <&> \ud800"}`),
		[]byte(`{"amount":7,"a":` + deep(500) + `}`), // a depth of 1,000
		[]byte(deep(20_000)), // beyond the limit
		[]byte(`{"amount":8,"list":[` + strings.Repeat(`{"x":1.10},`, 95_000) + `1],"text":"` + strings.Repeat("y", 1000) + `"}`), // 1 MB
		[]byte(`{"amount":9`), []byte(`{"amount":9}}`), []byte(`{"amount":01}`), []byte("{\"amount\":\"\x01\"}"),
		[]byte(`{"amount":9,}`), []byte("\xef\xbb\xbf{}"),
		{0, 1, 2, 0xff},
	}
}

// randomJSON writes a random document with what is hard about JSON in it.
func randomJSON(rng *rand.Rand, depth int) string {
	scalars := []string{
		"null", "true", "false", "0", "-1", "1.10", "1e3", "9007199254740993", "18446744073709551615", "123456789012345678901234567890",
		`""`, `"eu"`, `"\u0061\/\n"`, "\"\xff\"", `"\ud83d\ude00"`, `"ü<&>"`,
	}
	space := []string{"", "", " ", "\n\t"}[rng.IntN(4)]
	if depth == 0 || rng.IntN(3) == 0 {
		return space + scalars[rng.IntN(len(scalars))] + space
	}
	names := []string{"amount", "region", "id", "list", "a", "b", `\u0061`, "ü", ""}
	parts := make([]string, rng.IntN(5))
	object := rng.IntN(3) > 0
	for i := range parts {
		parts[i] = randomJSON(rng, depth-1)
		if object {
			parts[i] = `"` + names[rng.IntN(len(names))] + `":` + parts[i]
		}
	}
	if object {
		return space + "{" + strings.Join(parts, ",") + space + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// replayed are chains of the expression languages under the property of replay.
var replayed = []string{
	`filter(value.amount > 1)`,
	`filter(has(value.amount) && value.amount != 5 || text.contains("e"))`,
	`filter(value.list.all(x, x != 1))`,
	`set(value.tier = "gold")`,
	`set(value.a.b = value.amount)`,
	`set(value.copy = value)`,
	`set(value = {"z": value, "keys": value.map(k, k), "m": {"c": 1, "b": 2, "a": 3}.map(k, k)})`,
	`set(key = value.id) | set(headers.x = value.region)`,
	`route_if(a: value.?region.orValue("") == "eu")`,
	`route_to(eu, us: string(value.region))`,
	`jq(.)`,
	`jq({z: ., keys: (keys? // []), n: [.. | numbers], s: "\(.amount?)"})`,
	`jq(if .amount? then .amount += 1 else .list[]? end)`,
	`jq(walk(if type == "object" then to_entries | from_entries else . end))`,
}

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
	`on_key(json_set(a=1.10) | regex_replace("k", "q"))`,
	`on_key(header_from_json(h=.)) | json_extract(amount, bare)`,
	`wasm(@testdata/guests/manners.wasm, steps: 100000)`,
	`schema_encode(subject: order-proto) | schema_decode`,
	`schema_encode(subject: json) | schema_map_id`,
	`schema_encode(subject: unions) | schema_decode(form: avro)`,
	`identity | set_header(h=1) | set_key_from_header(h) | route(a)`,
}

// replayRecords are what is hard about records, and random ones: each hard value once as value
// and once as key.
func replayRecords(rng *rand.Rand) []Record {
	hard := hardValues()
	if racing {
		hard = slices.DeleteFunc(hard, func(value []byte) bool { return len(value) > 1000 })
	}
	var values, keys [][]byte
	for i, value := range hard {
		values, keys = append(values, value), append(keys, []byte("k"))
		if len(value) < 1000 {
			values, keys = append(values, hard[(i+7)%len(hard)]), append(keys, value)
		}
	}
	random := 60
	if racing {
		random = 8
	}
	for range random {
		values = append(values, []byte(`{"amount":`+randomJSON(rng, 1)+`,"region":`+randomJSON(rng, 0)+`,"id":`+randomJSON(rng, 0)+`,"list":[`+randomJSON(rng, 3)+`],"a":`+randomJSON(rng, 3)+`}`))
		values = append(values, []byte(randomJSON(rng, 4)))
		keys = append(keys, []byte(`{"id":`+randomJSON(rng, 0)+`,"list":[`+randomJSON(rng, 2)+`]}`), []byte(randomJSON(rng, 2)))
	}
	headers := []Header{{"h", nil}, {"h", []byte{}}, {"h", []byte("\xff")}, {"trace", []byte("1")}, {"region", []byte("eu")}, {"h", []byte("x")}}
	var records []Record
	for i := range values {
		r := Record{Topic: "orders", Partition: int32(i % 3), Offset: int64(i), Key: keys[i], Value: values[i], Timestamp: time.UnixMilli(rng.Int64N(2e12))}
		for range rng.IntN(4) {
			r.Headers = append(r.Headers, headers[rng.IntN(len(headers))])
		}
		records = append(records, r)
	}
	rng.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	return records
}

// TestReplay: whatever a record holds, every instance makes the same of it, byte for byte,
// and leaves the record alone. The instances have seen other records before, and what the
// first made is looked at when all records have passed: it lasts.
func TestReplay(t *testing.T) {
	for _, expr := range slices.Concat(replayedNative, replayed) {
		t.Run(expr, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(9, 10))
			records := replayRecords(rng)
			spec, err := Parse(expr)
			if err != nil {
				t.Fatal(err)
			}
			first, results, used := make([]outcome, len(records)), 0, spec.New()
			for i := range records {
				was := snapshot(records[i])
				first[i] = outcomeOf(t, used, &records[i])
				if !reflect.DeepEqual(was, snapshot(records[i])) {
					t.Fatalf("record %d, %.200q, was altered", i, was.Value)
				}
				results += len(first[i].records)
			}
			if results == 0 && !racing { // or there are too few records
				t.Error("no record got through: the test shows nothing")
			}
			again := spec.New()
			for _, i := range rng.Perm(len(records)) {
				if rng.IntN(8) == 0 {
					again = spec.New()
				}
				if second := outcomeOf(t, again, &records[i]); !second.same(first[i]) {
					t.Fatalf("%.200q became\n%.500s, then\n%.500s", records[i].Value, first[i], second)
				}
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
