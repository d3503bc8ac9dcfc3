package main

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed lists/*.yaml
var lists embed.FS

// Mutation is one edit of the sources and the test that must fail under it.
type Mutation struct {
	// Breaks says in words which promise does not hold any more.
	Breaks string `yaml:"breaks"`
	// Package is the directory of the source, from the root of the module.
	Package string `yaml:"-"`
	// Decl is the name of the function, method (conn.execute), constant,
	// variable or type that the edit is in.
	Decl string `yaml:"at"`
	// Find is a part of the declaration that is in it exactly once, and Replace
	// takes its place. White space, line breaks and comments do not matter. An …
	// in Find stands for any one token, and in Replace for that token.
	Find    string `yaml:"find"`
	Replace string `yaml:"replace"`
	// Killed names the test that fails.
	Killed string `yaml:"killed by"`
	// TestPackage is the directory of the test; empty is Package.
	TestPackage string `yaml:"in"`
}

// Name returns what -only looks into, and messages call the mutation.
func (m *Mutation) Name() string { return m.Package + " " + m.Decl + ": " + m.Breaks }

// load reads the lists of fsys.
func load(fsys fs.FS) ([]Mutation, error) {
	files, err := fs.Glob(fsys, "lists/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []Mutation
	for _, name := range files {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		decoder := yaml.NewDecoder(bytes.NewReader(data))
		decoder.KnownFields(true)
		var list map[string][]Mutation // by package
		if err := decoder.Decode(&list); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, pkg := range slices.Sorted(maps.Keys(list)) {
			for _, m := range list[pkg] {
				m.Package, m.TestPackage = pkg, cmp.Or(m.TestPackage, pkg)
				all = append(all, m)
			}
		}
	}
	for i := range all {
		m := &all[i]
		if m.Breaks == "" || m.Decl == "" || len(tokens([]byte(m.Find))) == 0 || m.Killed == "" || m.Find == m.Replace {
			return nil, fmt.Errorf("%q: breaks, at, find, replace or killed by is missing", m.Name())
		}
	}
	return all, nil
}

// check returns an error for each mutation that does not fit the sources.
func check(root string, all []Mutation) error {
	var errs []error
	for i := range all {
		m := &all[i]
		_, _, err := m.apply(root)
		if err == nil {
			err = m.findTest(root)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// findTest returns nil if the package has the test.
func (m *Mutation) findTest(root string) error {
	name, _, _ := strings.Cut(m.Killed, "/")
	files, err := filepath.Glob(filepath.Join(root, m.TestPackage, "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if bytes.Contains(source, []byte("\nfunc "+name+"(")) {
			return nil
		}
	}
	return fmt.Errorf("there is no %s in %s", name, m.TestPackage)
}
