package peers

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/variant"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	if _, err := Find("turbo", dir); err == nil || !strings.Contains(err.Error(), "streams") {
		t.Errorf("of an unknown name: %v, want one that names the known", err)
	}
	// What starts the JVMs is looked for in PATH.
	if err := os.WriteFile(filepath.Join(dir, "java"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for _, name := range Names() {
		if _, err := Find(name, dir); err == nil || !strings.Contains(err.Error(), "make peers") {
			t.Errorf("%s, not built: %v, want one that tells what to do", name, err)
		}
		made := filepath.Join(dir, all[name].made)
		if err := os.MkdirAll(filepath.Dir(made), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(made, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		v, err := Find(name, dir)
		if err != nil || v.Name != name || v.About == "" || !v.ExactlyOnce {
			t.Fatalf("%s: %+v, %v", name, v, err)
		}
		c, err := v.Command(variant.Work{
			Bootstrap: "h:1", In: "in", Out: "out", Partitions: 8, Group: "g", Instance: "i",
			Interval: 100 * time.Millisecond, Compression: "lz4", Dir: "/state",
		})
		if err != nil || !filepath.IsAbs(c.Path) {
			t.Errorf("%s: starts with %q, %v", name, c.Path, err)
		}
		for _, want := range []string{
			"PEER_BOOTSTRAP=h:1", "PEER_INPUT=in", "PEER_OUTPUT=out", "PEER_GROUP=g", "PEER_INSTANCE=i",
			"PEER_INTERVAL_MS=100", "PEER_COMPRESSION=lz4", "PEER_STATE=/state",
		} {
			if !slices.Contains(c.Env, want) {
				t.Errorf("%s: no %s in %q", name, want, c.Env)
			}
		}
		if slices.ContainsFunc(c.Env, func(s string) bool { return strings.HasPrefix(s, "PEER_LINGER_MS=") }) {
			t.Errorf("%s: a linger that nobody asked for: %q", name, c.Env)
		}
	}
}

// TestVersions holds the page's words on each peer against what is built.
func TestVersions(t *testing.T) {
	for name, row := range map[string]struct{ file, pattern string }{
		"streams": {"streams/pom.xml", `<artifactId>kafka-streams</artifactId>\s*<version>([^<]+)</version>`},
		"flink":   {"flink/pom.xml", `<flink.version>([^<]+)</flink.version>`},
		"rdkafka": {"build.sh", `(?m)^CONFLUENT=(.+)$`},
	} {
		text, err := os.ReadFile(row.file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(row.pattern).FindSubmatch(text)
		if found == nil {
			t.Errorf("%s: no version in %s", name, row.file)
			continue
		}
		if about := all[name].about; !strings.Contains(about, string(found[1])) {
			t.Errorf("%s: %q is not about %s, which %s builds", name, about, found[1], row.file)
		}
	}
}
