package cli

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	for _, line := range []string{"version", "--version", "-version"} {
		code, stdout, stderr := runMain(nil, line)
		if code != exitOK || stderr != "" || !strings.HasPrefix(stdout, "eosbridge ") || !strings.Contains(stdout, runtime.Version()) {
			t.Errorf("%s: status %d, %q, %q", line, code, stdout, stderr)
		}
	}
	_, stdout, _ := runMain(nil, "version", "--json")
	var got map[string]string
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"version", "commit", "date", "go", "platform", "franz_go"} {
		if _, ok := got[key]; !ok {
			t.Errorf("no %q in %s", key, stdout)
		}
	}
}

func TestBuild(t *testing.T) {
	module := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{
			Main:     debug.Module{Version: version},
			Settings: settings,
			Deps:     []*debug.Module{{Path: "x", Version: "v0"}, {Path: "github.com/twmb/franz-go", Version: "v1.22.3"}},
		}
	}
	revision, at := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}, debug.BuildSetting{Key: "vcs.time", Value: "2026-01-31T00:00:00Z"}
	modified := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	tail := ", " + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	for name, test := range map[string]struct {
		flags Build
		info  *debug.BuildInfo
		want  string
	}{
		"nothing known":          {Build{}, nil, "eosbridge devel" + tail},
		"set by the linker":      {Build{Version: "v1", Commit: "c", Date: "d"}, nil, "eosbridge v1, commit c, d" + tail},
		"go install":             {Build{}, module("v1.2.3"), "eosbridge v1.2.3" + tail + ", franz-go v1.22.3"},
		"go build in a checkout": {Build{}, module("(devel)", revision, at), "eosbridge devel, commit abc, 2026-01-31T00:00:00Z" + tail + ", franz-go v1.22.3"},
		"with changes":           {Build{}, module("(devel)", revision, modified), "eosbridge devel, commit abc+modified" + tail + ", franz-go v1.22.3"},
		"the linker wins":        {Build{Version: "v9", Commit: "c"}, module("v1", revision, at, modified), "eosbridge v9, commit c, 2026-01-31T00:00:00Z" + tail + ", franz-go v1.22.3"},
	} {
		if got := test.flags.complete(test.info).String(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
