package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/transform"
)

func transformListCommand() command {
	return command{
		name:    "list",
		summary: "what BRIDGE_TRANSFORM may hold",
		usage: `usage: eosbridge transform list [--json] [NAME ...]

Lists the transforms that are built in, each with the form of its argument, what it does, and an example.
BRIDGE_TRANSFORM joins them with |, read from left to right. Names are explained in full.

  --json   print a JSON array of objects with name, usage, doc and example`,
		example: "eosbridge transform list\neosbridge transform list json_set json_mask",
		run:     runTransformList,
	}
}

func runTransformList(_ context.Context, c *Context, args []string) error {
	flags := newFlags("transform list")
	asJSON := flags.Bool("json", false, "")
	names, err := parseFlagsAndNames(flags, args)
	if err != nil {
		return err
	}
	listed, err := listedTransforms(names)
	if err != nil {
		return err
	}
	if *asJSON {
		return printJSON(c.Stdout, listed)
	}
	_, err = fmt.Fprint(c.Stdout, transformList(listed, len(names) > 0))
	return err
}

// listedTransform is a transform in the list for programs.
type listedTransform struct {
	Name    string `json:"name"`
	Usage   string `json:"usage"`
	Summary string `json:"-"`
	Doc     string `json:"doc"`
	Example string `json:"example"`
}

// listedTransforms returns those of the names, or all.
func listedTransforms(names []string) ([]listedTransform, error) {
	var listed []listedTransform
	var known []string
	for _, d := range transform.Definitions() {
		known = append(known, d.Name)
		if len(names) == 0 || slices.Contains(names, d.Name) {
			listed = append(listed, listedTransform{Name: d.Name, Usage: d.Usage, Summary: d.Summary(), Doc: d.Doc, Example: d.Example})
		}
	}
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		if near := config.Nearest(name, known); near != "" {
			return nil, usageErrorf("unknown transform %q: did you mean %q?", name, near)
		}
		return nil, usageErrorf("unknown transform %q: see eosbridge transform list", name)
	}
	return listed, nil
}

// transformList is the list for people: the form, what it does in one sentence or in full, and an example unless it
// would repeat the form.
func transformList(listed []listedTransform, full bool) string {
	var b strings.Builder
	for i, t := range listed {
		if i > 0 {
			b.WriteString("\n")
		}
		text := t.Summary
		if full {
			text = t.Doc
		}
		fmt.Fprintf(&b, "%s\n    %s\n", t.Usage, text)
		if t.Example != t.Usage {
			fmt.Fprintf(&b, "    example: %s\n", t.Example)
		}
	}
	return b.String()
}
