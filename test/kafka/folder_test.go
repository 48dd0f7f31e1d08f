package kafka

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFolderOfTheDeadIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dead := filepath.Join(os.TempDir(), "eosbridge-kafka-1")
	young := filepath.Join(os.TempDir(), "eosbridge-kafka-2") // no lock yet
	for _, dir := range []string{dead, young} {
		if err := os.MkdirAll(filepath.Join(dir, "node-1"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dead, "lock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	first, release, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	second, releaseSecond, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{dead: false, young: true, first: true, second: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s there: %v, want %v", dir, err == nil, want)
		}
	}
	for _, release := range []func() error{release, releaseSecond} {
		if err := release(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("released folder: %v", err)
	}
}

func TestCacheDir(t *testing.T) {
	t.Setenv(CacheVariable, "")
	dir, err := CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	root := strings.TrimSuffix(dir, filepath.Join(".cache", "kafka"))
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Errorf("%s is not beside the module's root: %v", dir, err)
	}
	t.Setenv(CacheVariable, "/somewhere")
	if dir, err := CacheDir(); err != nil || dir != "/somewhere" {
		t.Errorf("with the variable set: %q, %v", dir, err)
	}
	t.Setenv(CacheVariable, "")
	t.Chdir(t.TempDir())
	if dir, err := CacheDir(); err == nil || !strings.Contains(err.Error(), CacheVariable) {
		t.Errorf("without go.mod: %q, %v", dir, err)
	}
}

// TestFetchIsAtomic breaks Maven and sees that no folder is left that looks
// whole, and that the error holds what Maven said.
func TestFetchIsAtomic(t *testing.T) {
	cache := t.TempDir()
	bin := t.TempDir()
	script := "#!/bin/sh\nfor a; do case $a in -DoutputDirectory=*) mkdir ${a#*=}; esac; done\necho the network is down\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "mvn"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(CacheVariable, cache)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	_, err := Fetch(t.Context(), "0.0.0")
	if err == nil || !strings.Contains(err.Error(), "the network is down") {
		t.Fatalf("err = %v", err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "0.0.0*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || !strings.HasSuffix(left[0], ".lock") {
		t.Errorf("left behind: %v", left)
	}
}

func TestTopicStem(t *testing.T) {
	for in, want := range map[string]string{
		"TestA/b_c.d#01":         "TestA-b-c-d-01",
		strings.Repeat("x", 200): strings.Repeat("x", 100),
		"Ünï":                    "-n-",
	} {
		if got := topicStem(in); got != want {
			t.Errorf("topicStem(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPortsDifferAndAvoidEphemeral(t *testing.T) {
	ports, err := freePorts(loopback, 50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if seen[p] || p < firstPort || p >= lastPort {
			t.Errorf("port %d twice or out of range", p)
		}
		seen[p] = true
	}
}
