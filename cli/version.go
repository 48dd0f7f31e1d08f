package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// Build says what was built.
type Build struct {
	// Version is the release, such as v1.2.3; "devel" if it was not released.
	Version string `json:"version"`
	// Commit is the revision of the source, with "+modified" if files were changed since; empty if unknown.
	Commit string `json:"commit"`
	// Date is the time of the build, or of the commit, in RFC 3339 form; empty if unknown.
	Date string `json:"date"`
	// Go, Platform and Client are the toolchain, the operating system with the architecture, and the version of
	// the Kafka client library.
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Client   string `json:"franz_go"`
}

// complete fills the empty fields from what the toolchain recorded, which may be nothing.
func (b Build) complete(info *debug.BuildInfo) Build {
	b.Go, b.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
	if info != nil {
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if b.Commit == "" && settings["vcs.revision"] != "" {
			b.Commit = settings["vcs.revision"]
			if settings["vcs.modified"] == "true" {
				b.Commit += "+modified"
			}
		}
		b.Date = cmp.Or(b.Date, settings["vcs.time"])
		if info.Main.Version != "(devel)" {
			b.Version = cmp.Or(b.Version, info.Main.Version)
		}
		for _, module := range info.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				b.Client = module.Version
			}
		}
	}
	b.Version = cmp.Or(b.Version, "devel")
	return b
}

// build returns what is known of this program.
func (c *Context) build() Build {
	info, _ := debug.ReadBuildInfo()
	return c.Build.complete(info)
}

// String returns one line for people.
func (b Build) String() string {
	s := "eosbridge " + b.Version
	if b.Commit != "" {
		s += ", commit " + b.Commit
	}
	if b.Date != "" {
		s += ", " + b.Date
	}
	s += ", " + b.Go + ", " + b.Platform
	if b.Client != "" {
		s += ", franz-go " + b.Client
	}
	return s
}

func versionCommand() command {
	return command{
		name:    "version",
		summary: "show what was built, from which commit",
		usage: `usage: eosbridge version [--json]

Shows the release, the commit, the Go toolchain and the version of the Kafka client.

  --json   print one JSON object`,
		example: `eosbridge version --json`,
		run:     runVersion,
	}
}

func runVersion(_ context.Context, c *Context, args []string) error {
	flags := newFlags("version")
	asJSON := flags.Bool("json", false, "")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *asJSON {
		return printJSON(c.Stdout, c.build())
	}
	_, err := fmt.Fprintln(c.Stdout, c.build())
	return err
}

// printJSON prints a value for programs, indented for the people who debug them.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
