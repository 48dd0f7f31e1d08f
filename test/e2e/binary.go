package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BinaryVariable names a binary to test in place of one built from this module.
const BinaryVariable = "EOSBRIDGE_BIN"

// Build builds the bridge into dir, with more flags of go build if given, and
// returns the binary's path. The working directory has to be that of a package
// two folders below the module's root, as it is in a test of test/….
// Without flags, BinaryVariable goes first.
func Build(dir string, flags ...string) (string, error) {
	if binary := os.Getenv(BinaryVariable); binary != "" && len(flags) == 0 {
		return filepath.Abs(binary)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	if err := touchSources(root); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "eosbridge")
	cmd := exec.Command("go", append(append([]string{"build", "-o", binary}, flags...), ".")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the bridge: %w\n%s", err, out)
	}
	return binary, nil
}

// touchSources looks at each source file of the product, so that go test, which
// remembers what a test has looked at, runs anew when one has changed.
func touchSources(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "test"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"), d.Name() == "go.mod":
			_, err := os.Stat(path)
			return err
		}
		return nil
	})
}
