package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

// rooms are what the suites in other languages need: which packages are
// installed, and the contracts.
//
//go:embed node/*.json node/*.mjs python/*.py python/*.txt python/*.ini
var rooms embed.FS

func fetchNode(w *workshop, _ *suite) error {
	dir, err := w.path("node")
	if err != nil || w.installed["node"] {
		return err
	}
	changed, err := w.lay("node", dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err != nil || changed {
		if err := w.install(dir, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"); err != nil {
			return err
		}
	}
	w.done("node")
	return nil
}

func runNode(ctx context.Context, w *workshop, s *suite, addr string) (result, error) {
	dir, err := w.path("node")
	if err != nil {
		return result{}, err
	}
	out, err := w.test(ctx, dir, environment(addr), "node",
		append([]string{"--test", "--test-reporter=junit", "--test-reporter-destination=stdout"}, s.tests...)...)
	if err != nil {
		return result{}, err
	}
	return readJUnit(out)
}

func fetchPython(w *workshop, s *suite) error {
	dir, err := w.path("python")
	if err != nil {
		return err
	}
	python := filepath.Join(dir, ".venv", "bin", "python")
	if !w.installed["python"] {
		changed, err := w.lay("python", dir)
		if err != nil {
			return err
		}
		done := filepath.Join(dir, ".venv", "installed")
		if _, err := os.Stat(done); err != nil || changed {
			if err := w.install(dir, "python3", "-m", "venv", ".venv"); err != nil {
				return err
			}
			if err := w.install(dir, python, "-m", "pip", "install", "-q", "-r", "requirements.txt"); err != nil {
				return err
			}
			if err := os.WriteFile(done, nil, 0o644); err != nil {
				return err
			}
		}
		w.done("python")
	}
	source := s.tests[0]
	if _, err := os.Stat(filepath.Join(dir, source)); err == nil {
		return nil
	}
	// The tests are in the archive of the sources.
	if err := w.install(dir, python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", s.library, s.library+"=="+s.version); err != nil {
		return err
	}
	return w.install(dir, "tar", "xzf", source+".tar.gz")
}

func runPython(ctx context.Context, w *workshop, s *suite, addr string) (result, error) {
	dir, err := w.path("python")
	if err != nil {
		return result{}, err
	}
	report := filepath.Join(dir, "report.xml")
	if err := os.Remove(report); err != nil && !errors.Is(err, os.ErrNotExist) {
		return result{}, err
	}
	args := []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", report}
	if s.plugin != "" {
		args = append(args, "-p", s.plugin)
	}
	out, err := w.test(ctx, filepath.Join(dir, s.tests[0]), append(environment(addr), "PYTHONPATH="+dir),
		filepath.Join(dir, ".venv", "bin", "python"), append(args, s.tests[1:]...)...)
	if err != nil {
		return result{}, err
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return result{}, errors.New("pytest has written no report:\n" + string(out))
	}
	return readJUnit(text)
}

// environment tells tests of the server. REDIS is what pyrate-limiter reads.
func environment(addr string) []string {
	host, port, _ := net.SplitHostPort(addr) // an address of ours
	return []string{"DROPIN_HOST=" + host, "DROPIN_PORT=" + port, "REDIS=redis://" + addr}
}

// readJUnit reads a report of test cases in the form of JUnit.
func readJUnit(text []byte) (result, error) {
	var res result
	var name string
	var failed, skipped bool
	seen := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return res, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "testcase":
				name, failed, skipped = caseName(t), false, false
				if seen[name]++; seen[name] > 1 { // of another group of tests
					name = fmt.Sprintf("%s (%d)", name, seen[name])
				}
			case "failure", "error":
				failed = true
			case "skipped":
				skipped = true
			}
		case xml.EndElement:
			switch {
			case t.Name.Local != "testcase":
			case failed:
				res.failed = append(res.failed, name)
			case skipped:
				res.skipped = append(res.skipped, name)
			default:
				res.passed = append(res.passed, name)
			}
		}
	}
	if len(res.passed)+len(res.failed) == 0 {
		return res, errors.New("no test was run:\n" + string(text))
	}
	return res, nil
}

func caseName(e xml.StartElement) string {
	var class, name string
	for _, a := range e.Attr {
		switch a.Name.Local {
		case "classname":
			class = a.Value
		case "name":
			name = a.Value
		}
	}
	if class == "" || class == "test" {
		return name
	}
	return class + " " + name
}
