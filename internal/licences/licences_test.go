// Package licences has a test of the licences of what Headgate is built from.
package licences

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the list of modules into NOTICE")

// allowed are the licences of modules that the program may contain, and tests use. Each
// permits to pass on a program under another licence, with a notice.
var allowed = []string{"Apache-2.0", "BSD", "ISC", "MIT"}

// excepted are modules under another licence, and why they may be used all the same.
var excepted = map[string]string{
	// MPL-2.0 is about files: a change of a file of theirs has to be published. We use
	// these as they are published, which the test checks.
	"github.com/hashicorp/raft":               "MPL-2.0",
	"github.com/hashicorp/go-immutable-radix": "MPL-2.0",
	"github.com/hashicorp/golang-lru":         "MPL-2.0",
	"pgregory.net/rapid":                      "MPL-2.0", // in tests only
}

// texts are parts of licences, by name. One of them stands in each licence.
var texts = []struct{ part, name string }{
	{"GNU AFFERO GENERAL PUBLIC LICENSE Version", "AGPL"},
	{"GNU LESSER GENERAL PUBLIC LICENSE Version", "LGPL"},
	{"GNU GENERAL PUBLIC LICENSE Version", "GPL"},
	{"Mozilla Public License, version 2.0", "MPL-2.0"},
	{"Mozilla Public License Version 2.0", "MPL-2.0"},
	{"Apache License, Version 2.0", "Apache-2.0"},
	{"Apache License Version 2.0", "Apache-2.0"},
	{"Permission is hereby granted, free of charge", "MIT"},
	{"Permission to use, copy, modify, and/or distribute this software", "ISC"},
	{"Permission to use, copy, modify, and distribute this software", "ISC"},
	{"Redistribution and use in source and binary forms", "BSD"},
}

// TestLicences fails when a Go module that one of ours uses, or its tests, has a licence that
// is not allowed. Packages for Node and Python are for tests only, and no part of a release.
func TestLicences(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	ours := regexp.MustCompile(`(?m)^MODULES *:= (.*)$`).FindSubmatch(makefile)
	require.NotNil(t, ours)
	used := map[string]bool{}
	for _, dir := range append(strings.Fields(string(ours[1])), ".") {
		for _, m := range modules(t, dir, "-test", "./...") {
			names := licences(t, m)
			why, exception := excepted[m.Path]
			used[m.Path] = true
			for _, name := range names {
				switch {
				case exception && name == why:
					require.Nil(t, m.Replace, "%s is replaced: under %s our changes would have to be published", m.Path, name)
				case !slices.Contains(allowed, name):
					t.Errorf("%s, which %s uses, is under %s, which is not allowed", m.Path, dir, name)
				}
			}
		}
	}
	for path := range excepted {
		require.True(t, used[path], "%s is excepted, and nothing uses it", path)
	}
}

// TestNotice fails when NOTICE does not name the modules that the program contains. With
// -update it writes their list.
func TestNotice(t *testing.T) {
	const file, begin = "../../NOTICE", "The modules are:\n\n"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, list, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	var want strings.Builder
	for _, m := range modules(t, ".", "./cmd/headgate") {
		fmt.Fprintf(&want, "    %s (%s)\n", m.Path, strings.Join(licences(t, m), ", "))
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+want.String()), 0o644))
		return
	}
	require.Equal(t, want.String(), list, "go test ./internal/licences -update writes it")
}

// module is one that packages come from, as go list tells it.
type module struct {
	Path, Dir string
	Main      bool
	Replace   *module
}

// modules returns the modules of other people that packages need on the systems that
// Headgate runs on. The packages are of the module in dir, a directory of the repository.
// args are further arguments of go list.
func modules(t *testing.T, dir string, args ...string) []*module {
	all := map[string]*module{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := exec.Command("go", append([]string{"list", "-deps", "-json=Module"}, args...)...)
		list.Dir = filepath.Join("../..", dir)
		list.Env, list.Stderr = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"), os.Stderr
		out, err := list.Output()
		require.NoError(t, err)
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var pkg struct{ Module *module }
			err := d.Decode(&pkg)
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			if m := pkg.Module; m != nil && !m.Main && !strings.HasPrefix(m.Path, "github.com/headgate-io/") { // the standard library has none
				all[pkg.Module.Path] = pkg.Module
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *module) int { return cmp.Compare(a.Path, b.Path) })
}

// licences returns the names of the licences that a module's file of them has.
func licences(t *testing.T, m *module) []string {
	var names []string
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "COPYING*"} {
		files, err := filepath.Glob(filepath.Join(m.Dir, pattern))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			names = append(names, named(string(text))...)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	require.NotEmpty(t, names, "%s has no licence that is known here", m.Path)
	return names
}

// named returns the licences whose text is in a file.
func named(text string) (names []string) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, l := range texts {
		if strings.Contains(text, strings.ToLower(l.part)) {
			names = append(names, l.name)
		}
	}
	return names
}

func TestNamed(t *testing.T) {
	for text, want := range map[string][]string{
		"MIT License\n\nPermission is hereby granted,\nfree of charge, to": {"MIT"},
		"                    GNU GENERAL PUBLIC LICENSE\n   Version 3":     {"GPL"},
		"All rights reserved.": nil,
	} {
		require.Equal(t, want, named(text))
	}
}
