package main_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/eosbridge/eosbridge"

// Outside modules that several rooms may use.
const (
	franz       = "github.com/twmb/franz-go/pkg/"
	prometheus  = "github.com/prometheus/client_golang/"
	metricModel = "github.com/prometheus/client_model/go"
)

// room says what the code of one folder (tests not included) may import
// besides the standard library.
type room struct {
	why     string
	rooms   []string // of this module
	outside []string // packages; with a slash at the end: and all below
}

// rooms is the import law of this repository; CONTRIBUTING.md draws it. Records
// flow source -> lane -> aligned barrier -> slot -> positions, and no import
// goes against the flow. A new folder needs a line here.
var rooms = map[string]room{
	".": {
		why:   "main.go fills cli.Context and ends the process",
		rooms: []string{"cli"},
	},
	"cli": {
		why:   "parses and wires: it alone turns configuration into the rooms' options, and it hosts the demo's broker",
		rooms: []string{"config", "audit", "bridge", "check", "transform", "txn", "offsets", "topics", "internal/link", "internal/otlp", "internal/exposition"},
		outside: []string{
			franz, "github.com/twmb/franz-go/plugin/kprom", prometheus, "golang.org/x/",
			"github.com/KimMachineGun/automemlimit/memlimit", "go.yaml.in/yaml/v3",
		},
	},
	"config": {
		why:     "a leaf: variables in, one struct out; no room imports it but cli",
		outside: []string{"github.com/caarlos0/env/v11"},
	},
	"audit": {
		why:     "reads both ends and compares; it must not share code with what it judges",
		rooms:   []string{"offsets"},
		outside: []string{franz + "kgo", franz + "kadm", franz + "kmsg", franz + "kerr", "golang.org/x/sync/errgroup"},
	},
	"check": {
		why:     "asks a cluster before a start, and judges by pure rules; it says what the bridge would, so it shares the laws",
		rooms:   []string{"txn", "offsets", "topics"},
		outside: []string{franz + "kgo", franz + "kadm", franz + "kmsg", franz + "kerr", "golang.org/x/sync/errgroup"},
	},
	"topics": {
		why: "a leaf, pure: which topics a pipeline reads and writes",
	},
	"bridge": {
		why:     "the runtime: who does what, and in which order",
		rooms:   []string{"transform", "txn", "offsets", "topics", "internal/batch", "internal/link", "internal/crashpoint"},
		outside: []string{franz + "kgo", franz + "kadm", franz + "kmsg", franz + "kerr", prometheus, metricModel, "golang.org/x/sync/errgroup"},
	},
	"transform": {
		why: "a leaf, pure: what becomes of a record; each engine brings its library",
		outside: []string{
			"cel.dev/cel-go/", "github.com/itchyny/gojq", "github.com/klauspost/compress/gzip", "github.com/klauspost/compress/zstd",
			"github.com/tetratelabs/wazero", "github.com/tetratelabs/wazero/api", "github.com/tetratelabs/wazero/experimental",
			"golang.org/x/sys/unix", "golang.org/x/sys/cpu", // the memory of WebAssembly guests
			"google.golang.org/protobuf/",
		},
	},
	"txn": {
		why:     "the two-phase commit: when it becomes true",
		rooms:   []string{"offsets", "internal/batch", "internal/link", "internal/crashpoint"},
		outside: []string{franz + "kgo", franz + "kadm", franz + "kmsg", franz + "kerr", franz + "kversion", "golang.org/x/sync/errgroup"},
	},
	"offsets": {
		why:     "a leaf: where we are",
		outside: []string{franz + "kgo", franz + "kadm", franz + "kmsg", franz + "kerr"},
	},
	"internal/link": {
		why:     "a leaf: connections to brokers, and the way of batches beside the client's buffers",
		outside: []string{franz + "kgo", franz + "kmsg", franz + "kbin"},
	},
	"internal/batch": {
		why:     "a leaf: the record batch, as it lies in a log",
		outside: []string{franz + "kgo", franz + "kmsg"},
	},
	"internal/otlp": {
		why: "a leaf: spans on their way to an OpenTelemetry collector; what they are about is for cli to say",
	},
	"internal/exposition": {
		why:     "a leaf: what a scrape of the metrics is answered with; which metrics there are is for others to say",
		outside: []string{prometheus, metricModel},
	},
	"internal/crashpoint": {
		why: "a leaf, empty but in a build for tests: where a crash is tried",
	},
	"deploy/parts": {
		why: "not the product: lists what a binary is made of, for a release",
	},
	"test/": {
		why:   "not the product: judges it from outside, as a binary; may use the pure leaves",
		rooms: []string{"test/", "offsets", "internal/batch", "internal/crashpoint"},
		outside: []string{
			franz, "golang.org/x/",
			"go.opentelemetry.io/proto/slim/otlp/", "google.golang.org/protobuf/encoding/protojson", // a collector's decoder
		},
	},
}

func TestRooms(t *testing.T) {
	faults, err := arrows(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

// TestRoomsCatches seeds one fault after the other: a test of arrows that
// passes whatever is imported would not be noticed otherwise.
func TestRoomsCatches(t *testing.T) {
	for _, row := range []struct{ name, file, imports, want string }{
		{"allowed", "txn/x.go", module + "/offsets", ""},
		{"std", "transform/x.go", "encoding/json", ""},
		{"below an allowed path", "cli/x.go", franz + "kfake", ""},
		{"test of a room", "offsets/x_test.go", module + "/test/kafka", ""},
		{"below test", "test/kafka/cmd/kafka/x.go", module + "/test/kafka", ""},
		{"against the flow", "offsets/x.go", module + "/txn", "txn"},
		{"config below cli", "bridge/x.go", module + "/config", "config"},
		{"the product imports a test", "bridge/x.go", module + "/test/kafka", "test/kafka"},
		{"a test room reaches in", "test/e2e/x.go", module + "/bridge", "bridge"},
		{"outside module", "transform/x.go", franz + "kgo", franz + "kgo"},
		{"prefix is no folder", "bridge/x.go", prometheus[:len(prometheus)-1] + "x/y", "client_golangx"},
		{"unknown room", "util/x.go", "fmt", "util"},
		{"nested folder", "bridge/internal/x.go", "fmt", "bridge/internal"},
	} {
		t.Run(row.name, func(t *testing.T) {
			tree := fstest.MapFS{row.file: {Data: fmt.Appendf(nil, "package x\n\nimport _ %q\n", row.imports)}}
			faults, err := arrows(tree)
			if err != nil {
				t.Fatal(err)
			}
			if row.want == "" {
				if len(faults) > 0 {
					t.Errorf("faults = %q, want none", faults)
				}
				return
			}
			if len(faults) != 1 || !strings.Contains(faults[0], row.want) || !strings.Contains(faults[0], row.file) {
				t.Errorf("faults = %q, want one that names %s and %s", faults, row.file, row.want)
			}
		})
	}
}

// TestRoomsTable keeps the table itself honest: a leaf that slipped in twice, a
// circle, or a room that is allowed but unknown.
func TestRoomsTable(t *testing.T) {
	var visit func(name string, way []string)
	visit = func(name string, way []string) {
		if slices.Contains(way, name) {
			t.Errorf("a circle: %v", append(way, name))
			return
		}
		r, ok := rooms[name]
		if !ok {
			t.Errorf("%v allows the unknown room %q", way, name)
		}
		if r.why == "" {
			t.Errorf("room %q says not why it exists", name)
		}
		for _, next := range r.rooms {
			if next != name {
				visit(next, append(slices.Clone(way), name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rooms)) {
		visit(name, nil)
	}
}

// arrows lists the imports of a source tree that the table does not allow. It
// reads the files itself: `go list` in a child process would leave the test's
// result in the cache when an import is added.
func arrows(tree fs.FS) (faults []string, err error) {
	err = fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		ast, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		r, ok := rooms[roomOf(path.Dir(file))]
		if !ok {
			faults = append(faults, fmt.Sprintf("%s: %s is not a room: put the file into one, or add it to the table with its reason", file, path.Dir(file)))
			return nil
		}
		for _, spec := range ast.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !r.may(imported) {
				faults = append(faults, fmt.Sprintf("%s imports %s, which its room may not (%s)", file, imported, r.why))
			}
		}
		return nil
	})
	return faults, err
}

// may tells whether a room may import a package.
func (r room) may(imported string) bool {
	if inner, ok := strings.CutPrefix(imported, module+"/"); ok {
		return slices.Contains(r.rooms, roomOf(inner))
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(r.outside, func(allowed string) bool {
		return imported == allowed || strings.HasSuffix(allowed, "/") && strings.HasPrefix(imported, allowed)
	})
}

// roomOf maps a folder to its line in the table: everything below test is one.
func roomOf(dir string) string {
	if dir == "test" || strings.HasPrefix(dir, "test/") {
		return "test/"
	}
	return dir
}
