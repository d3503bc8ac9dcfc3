package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

//go:embed lists/*.yaml
var lists embed.FS

// Mutation is one edit of the sources and the test that must fail under it.
type Mutation struct {
	// Breaks says in words what does not hold any more.
	Breaks string `yaml:"breaks"`
	// File is the path of the source, from the root of the module.
	File string `yaml:"file"`
	// Find is a part of the file that is in it exactly once, and Replace what
	// takes its place.
	Find    string `yaml:"find"`
	Replace string `yaml:"replace"`
	// Killed names the test that fails.
	Killed string `yaml:"killed by"`
	// Package is the directory of the test; empty is that of File.
	Package string `yaml:"in"`
	// Timeout, if not 0, says that the mutant may hang: a test that is not done
	// by then has failed.
	Timeout time.Duration `yaml:"timeout"`
}

// Name returns what -only looks into, and messages call the mutation.
func (m *Mutation) Name() string { return m.File + ": " + m.Breaks }

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
		var list []Mutation
		if err := decoder.Decode(&list); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, list...)
	}
	seen := make(map[string]bool)
	for i := range all {
		m := &all[i]
		if m.Breaks == "" || m.File == "" || m.Find == "" || m.Killed == "" || m.Find == m.Replace {
			return nil, fmt.Errorf("%q: breaks, file, find, replace or killed by is missing", m.Name())
		}
		if seen[m.Name()] {
			return nil, fmt.Errorf("%q: is in the lists twice", m.Name())
		}
		seen[m.Name()] = true
		if m.Package == "" {
			m.Package = path.Dir(m.File)
		}
	}
	return all, nil
}

// apply returns the mutated source. root is the module's directory.
func (m *Mutation) apply(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(source), m.Find); n != 1 {
		return nil, fmt.Errorf("found %d times, want once: %s", n, m.Find)
	}
	return []byte(strings.Replace(string(source), m.Find, m.Replace, 1)), nil
}

// check returns an error for each mutation that does not fit the sources.
func check(root string, all []Mutation) error {
	var errs []error
	for i := range all {
		m := &all[i]
		_, err := m.apply(root)
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
	files, err := filepath.Glob(filepath.Join(root, m.Package, "*_test.go"))
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
	return fmt.Errorf("there is no %s in %s", name, m.Package)
}
