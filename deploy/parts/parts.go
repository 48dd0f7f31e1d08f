package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"runtime/debug"
	"slices"
	"strings"
)

// binary is one executable and what is linked into it.
type binary struct {
	sum       [sha256.Size]byte
	main      string // module path
	goos      string
	goarch    string
	toolchain string // such as go1.26.8
	parts     []part // the standard library first, then by module path
}

// part is a module, or the standard library.
type part struct {
	name      string
	version   string // as the module system writes it; 1.26.8 for the standard library
	sum       string // h1:..., of the module's tree; empty for the standard library
	licence   string // SPDX expression
	documents []text
}

// text is one file of a licence, or a notice.
type text struct {
	name string
	body string
}

// read opens a binary and finds the licences of all that is in it. A module without a licence, or with one that is not
// known to be permissive, is an error.
func read(ctx context.Context, name string) (*binary, error) {
	info, err := buildinfo.ReadFile(name)
	if err != nil {
		return nil, err
	}
	b, err := fromBuild(info)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if b.sum, err = hash(name); err != nil {
		return nil, err
	}
	roots, err := folders(ctx, b.parts)
	if err != nil {
		return nil, err
	}
	for i := range b.parts {
		p := &b.parts[i]
		if p.documents, err = documents(os.DirFS(roots[p.name])); err != nil {
			return nil, fmt.Errorf("%s in %s: %w", p.name, roots[p.name], err)
		}
		if p.licence, err = expression(p.documents); err != nil {
			return nil, fmt.Errorf("%s in %s: %w", p.name, roots[p.name], err)
		}
	}
	return b, nil
}

// fromBuild takes names and versions from what the toolchain recorded.
func fromBuild(info *debug.BuildInfo) (*binary, error) {
	b := &binary{main: info.Main.Path, toolchain: info.GoVersion}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			b.goos = s.Value
		case "GOARCH":
			b.goarch = s.Value
		}
	}
	if b.main == "" || b.goos == "" || b.goarch == "" {
		return nil, errors.New("the toolchain has recorded no module and no platform in it: build it from its module, with make")
	}
	release, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ") // "go1.26.8 X:experiment"
	b.parts = append(b.parts, part{name: library, version: release})
	for _, m := range info.Deps {
		if m.Replace != nil {
			return nil, fmt.Errorf("%s is replaced by %s: a release is made of what go.mod names", m.Path, m.Replace.Path)
		}
		b.parts = append(b.parts, part{name: m.Path, version: m.Version, sum: m.Sum})
	}
	slices.SortFunc(b.parts[1:], func(x, y part) int { return strings.Compare(x.name, y.name) })
	return b, nil
}

// library is what databases of vulnerabilities call Go's standard library.
const library = "stdlib"

// folders asks the toolchain where the sources lie. It fetches nothing: what was linked is in the module cache.
func folders(ctx context.Context, parts []part) (map[string]string, error) {
	roots := map[string]string{}
	args := []string{"list", "-m", "-json=Path,Version,Dir"}
	for _, p := range parts {
		if p.name != library {
			args = append(args, p.name+"@"+p.version)
		}
	}
	if len(args) > 3 {
		out, err := exec.CommandContext(ctx, "go", args...).Output()
		if err != nil {
			return nil, fmt.Errorf("go list -m: %w", withStderr(err))
		}
		for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
			var m struct{ Path, Version, Dir string }
			if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if m.Dir == "" {
				return nil, fmt.Errorf("%s %s is not in the module cache: go mod download", m.Path, m.Version)
			}
			roots[m.Path] = m.Dir
		}
	}
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", withStderr(err))
	}
	roots[library] = strings.TrimSpace(string(out))
	return roots, nil
}

// withStderr adds what a program said before it failed.
func withStderr(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

// documents returns the files at the root of a module by which it is handed on.
func documents(root fs.FS) (found []text, err error) {
	entries, err := fs.ReadDir(root, ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		stem := strings.ToUpper(strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
		switch {
		case e.IsDir():
		case stem == "LICENSE", stem == "LICENCE", stem == "COPYING", stem == "NOTICE", stem == "PATENTS",
			strings.HasPrefix(stem, "LICENSE-"), strings.HasPrefix(stem, "LICENSE_"):
			body, err := fs.ReadFile(root, e.Name())
			if err != nil {
				return nil, err
			}
			found = append(found, text{name: e.Name(), body: string(body)})
		}
	}
	return found, nil
}

func hash(name string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer func() { _ = f.Close() }() // only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
