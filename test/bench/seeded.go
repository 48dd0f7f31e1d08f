package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/figures"
	"github.com/eosbridge/eosbridge/test/bench/measure"
)

// seededShare is how much dearer the lane is made on purpose.
const seededShare = 0.10

// runSeeded asks whether the benchmark sees a lane that takes a tenth more CPU time per record: the same binary, built
// with a lane that burns that much.
func runSeeded(ctx context.Context, b *board) error {
	variants := b.variants(nameBridge)
	if len(variants) == 0 {
		return errors.New("no bridge to seed")
	}
	if err := b.warm(ctx, sizeW2, variants); err != nil {
		return err
	}
	in, err := b.Load(ctx, "in", sizeW2, measure.Evenly(b.size.w2/3, partitions), "none")
	if err != nil {
		return err
	}
	defer b.Drop(in.Topic)
	job := boxed(workW2, in, "none", b.size.settle, b.size.box/3, variants)[0]
	first, err := b.Copy(ctx, job) // how much a record takes, to know a tenth of it
	if err != nil {
		return err
	}
	perRecord := seconds(seededShare * first.Values[figures.CPU] / 1e6)
	b.say("the lane of %s burns %v a record", nameSeeded, perRecord)
	binary, err := buildSeeded(ctx, b.dir, spinsFor(perRecord))
	if err != nil {
		return err
	}
	seeded := bridgeVariant(nameSeeded, binary, fmt.Sprintf("the bridge with a lane that takes %.0f %% more on purpose", 100*seededShare))
	if hasPassThrough(binary) {
		seeded = withEnvironment(seeded, []string{passThrough + "=off"})
	}
	seeded = withEnvironment(seeded, b.o.env[nameBridge])
	b.all.add(seeded)
	other := job
	other.Variant = seeded
	return b.copies(ctx, []measure.Copy{job, other})
}

func estimateSeeded(s sizes) time.Duration {
	one := aroundRun + seconds(float64(s.w2)/3/1_700_000) + seconds(float64(s.w2)/3/readBack)
	return aroundPart + seconds(float64(s.w2)/3/loadRate) + 15*time.Second + time.Duration(2*s.rounds+1)*one
}

// seededFile is the lane, and seededMethod where it gets its records.
const (
	seededFile   = "bridge/lane.go"
	seededType   = "lane"
	seededMethod = "take"
	seededCall   = "seededBurn(len(w.records))"
)

// seededBurn is what is added. The sum is kept, for the compiler would leave out what nobody looks at.
const seededBurn = `

//go:noinline
func seededBurn(records int) {
	for range records * %d {
		seededSum = seededSum*6364136223846793005 + 1442695040888963407
	}
}

var seededSum uint64
`

// burn is seededBurn's loop, to find out how long a turn of it takes.
//
//go:noinline
func burn(turns int, sum uint64) uint64 {
	for range turns {
		sum = sum*6364136223846793005 + 1442695040888963407
	}
	return sum
}

// spinsFor is how many turns last d. The shortest of several tries counts: the others were disturbed.
func spinsFor(d time.Duration) int {
	const turns = 20_000_000
	shortest := time.Duration(1 << 62)
	sum := uint64(1)
	for range 5 {
		began := time.Now()
		sum = burn(turns, sum)
		shortest = min(shortest, time.Since(began))
	}
	if sum == 0 { // never
		return 0
	}
	return max(1, int(float64(d)*turns/float64(shortest)))
}

// seed adds the call and the function to the text of the lane.
func seed(text []byte, spins int) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, seededFile, text, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != seededMethod || f.Recv == nil || f.Body == nil {
			continue
		}
		if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); !ok || fmt.Sprint(star.X) != seededType {
			continue
		}
		at := fset.Position(f.Body.Lbrace).Offset + 1
		seeded := bytes.Join([][]byte{text[:at], []byte(seededCall), text[at:]}, []byte("\n"))
		return fmt.Appendf(seeded, seededBurn, spins), nil
	}
	return nil, fmt.Errorf("%s has no method %s of %s: the seed has to follow the code", seededFile, seededMethod, seededType)
}

// root finds the module: the folder above that has a go.mod.
func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
	return "", err
}

// buildSeeded builds the bridge with a seeded lane in a folder and answers the path of the binary.
func buildSeeded(ctx context.Context, dir string, spins int) (string, error) {
	module, err := root()
	if err != nil {
		return "", err
	}
	original := filepath.Join(module, filepath.FromSlash(seededFile))
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if text, err = seed(text, spins); err != nil {
		return "", err
	}
	changed := filepath.Join(dir, "lane.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	file, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "eosbridge-seeded")
	if err := errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(file, overlay, 0o600)); err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-overlay", file, "-o", binary, ".")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the seeded bridge: %w\n%s", err, out)
	}
	return binary, nil
}
