package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	mit    = "Permission is hereby granted, free of charge, to any person ... without limitation the rights\nto use, copy,\n modify, merge, publish"
	bsd2   = "Redistribution and use in source and\nbinary forms, with or without modification, are permitted"
	bsd3   = bsd2 + "\n* Neither the name of Google Inc."
	apache = "   Apache License\n   Version 2.0, January 2004"
)

func TestExpression(t *testing.T) {
	for _, row := range []struct {
		name string
		tree fstest.MapFS
		want string
	}{
		{"one", fstest.MapFS{"LICENSE": {Data: []byte(mit)}}, "MIT"},
		{"two clauses", fstest.MapFS{"LICENSE.md": {Data: []byte(bsd2)}}, "BSD-2-Clause"},
		{"three clauses", fstest.MapFS{"LICENCE.txt": {Data: []byte(bsd3)}}, "BSD-3-Clause"},
		{"one file, two licences", fstest.MapFS{"LICENSE": {Data: []byte(mit + "\n" + apache)}}, "Apache-2.0 AND MIT"},
		{"a notice beside it", fstest.MapFS{"LICENSE": {Data: []byte(apache)}, "NOTICE": {Data: []byte("by X")}}, "Apache-2.0"},
		{"two files", fstest.MapFS{"LICENSE-MIT": {Data: []byte(mit)}, "COPYING": {Data: []byte(bsd3)}}, "BSD-3-Clause AND MIT"},
		{"none", fstest.MapFS{"README.md": {Data: []byte(mit)}}, "no licence that is known"},
		{"only deeper down", fstest.MapFS{"x/LICENSE": {Data: []byte(mit)}}, "no licence that is known"},
		{"unknown", fstest.MapFS{"LICENSE": {Data: []byte("Do what you like.")}}, "no licence that is known"},
		{"beside one that is not permissive", fstest.MapFS{
			"COPYING": {Data: []byte("GNU GENERAL\nPUBLIC LICENSE")}, "LICENSE": {Data: []byte(mit)},
		}, `COPYING speaks of the "general public license"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			found, err := documents(row.tree)
			if err != nil {
				t.Fatal(err)
			}
			got, err := expression(found)
			if err != nil {
				got = err.Error()
			}
			if got != row.want && !strings.HasPrefix(got, row.want+" ") && !strings.HasPrefix(got, row.want+":") {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestReplacedModule(t *testing.T) {
	_, err := fromBuild(&debug.BuildInfo{
		Main:     debug.Module{Path: "example.com/x"},
		Deps:     []*debug.Module{{Path: "example.com/y", Replace: &debug.Module{Path: "../y"}}},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}},
	})
	if err == nil || !strings.Contains(err.Error(), "example.com/y is replaced by ../y") {
		t.Errorf("err = %v", err)
	}
	if _, err := fromBuild(&debug.BuildInfo{}); err == nil {
		t.Error("a binary without a module has parts")
	}
}

// TestRun lists this test itself, which has no part but the standard library.
func TestRun(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var before []byte
	for range 2 {
		sbom, licences := filepath.Join(t.TempDir(), "sbom.json"), filepath.Join(t.TempDir(), "licences.txt")
		err := run(t.Context(), []string{"-version", "v1.2.3", "-date", "2026-11-30T12:00:00Z", "-sbom", sbom, "-licences", licences, executable}, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		list, err := os.ReadFile(sbom)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := os.ReadFile(licences)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(texts, []byte("\nstdlib 1.")) || !bytes.Contains(texts, []byte("Redistributions in binary form must reproduce")) {
			t.Errorf("the licence of the standard library is not among:\n%s", texts)
		}
		if before != nil && !bytes.Equal(before, list) {
			t.Error("the same binary has two lists")
		}
		before = list
	}
	var d document
	if err := json.Unmarshal(before, &d); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(d.Serial) {
		t.Errorf("serial number %q", d.Serial)
	}
	if d.Metadata.Component.Version != "v1.2.3" || len(d.Metadata.Component.Hashes) != 1 {
		t.Errorf("component = %+v", d.Metadata.Component)
	}
	if !slices.ContainsFunc(d.Components, func(c component) bool {
		return c.Name == library && strings.HasPrefix(c.Purl, "pkg:golang/stdlib@1.") && c.Licences[0].Expression == "BSD-3-Clause"
	}) {
		t.Errorf("components = %+v", d.Components)
	}
}

// TestMissing: what is not said is not guessed.
func TestMissing(t *testing.T) {
	if err := run(t.Context(), []string{"bin/eosbridge"}, t.Output()); err == nil || !strings.HasPrefix(err.Error(), "usage:") {
		t.Errorf("err = %v", err)
	}
}
