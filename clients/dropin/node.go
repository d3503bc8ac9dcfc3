package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// fetchNode installs the room of a suite, once in a run. A package whose tests
// do not run below node_modules is copied out of it, to the room's own/.
func fetchNode(w *workshop, s *suite) error {
	dir, err := w.path(s.room)
	if err != nil {
		return err
	}
	if !w.installed[s.room] {
		changed, err := w.lay(s.room, dir)
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err != nil || changed {
			if err := w.install(dir, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"); err != nil {
				return err
			}
		}
		w.installed[s.room] = true
	}
	if !s.own {
		return nil
	}
	target := filepath.Join(dir, "own", s.library+"-"+s.version)
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return os.CopyFS(target, os.DirFS(filepath.Join(dir, "node_modules", s.library)))
}

// inNode runs a program of Node in the room of a suite and returns what it
// prints.
func inNode(ctx context.Context, w *workshop, s *suite, t target, program string, args ...string) ([]byte, error) {
	dir, err := w.path(s.room)
	if err != nil {
		return nil, err
	}
	if program != "node" {
		program = filepath.Join(dir, "node_modules", ".bin", program)
	}
	if s.own {
		dir = filepath.Join(dir, "own", s.library+"-"+s.version)
	}
	return w.test(ctx, dir, append(environment(t.addr), s.env...), program, append(args, s.tests...)...)
}

// runNode runs tests by the runner that Node itself has.
func runNode(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	out, err := inNode(ctx, w, s, t, "node", "--test", "--test-reporter=junit", "--test-reporter-destination=stdout")
	if err != nil {
		return result{}, err
	}
	return readJUnit(out)
}

func runMocha(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	report := filepath.Join(w.dir, "mocha.xml")
	return reported(report, func() ([]byte, error) {
		return inNode(ctx, w, s, t, "mocha", "--exit", "--timeout", "20000", "--reporter", "xunit", "--reporter-option", "output="+report)
	})
}

func runAva(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	out, err := inNode(ctx, w, s, t, "ava", "--tap", "--serial")
	if err != nil {
		return result{}, err
	}
	return readTAP(out)
}

func runJest(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	report := filepath.Join(w.dir, "jest.xml")
	jest := *s
	jest.env = append(slices.Clone(s.env), "JEST_JUNIT_OUTPUT_FILE="+report)
	return reported(report, func() ([]byte, error) {
		return inNode(ctx, w, &jest, t, "jest", "--ci", "--forceExit", "--reporters=jest-junit", "--rootDir=.")
	})
}

// reported runs what writes a report in the form of JUnit, and reads it.
func reported(report string, run func() ([]byte, error)) (result, error) {
	if err := os.Remove(report); err != nil && !errors.Is(err, os.ErrNotExist) {
		return result{}, err
	}
	out, err := run()
	if err != nil {
		return result{}, err
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return result{}, fmt.Errorf("the tests have written no report:\n%s", out)
	}
	return readJUnit(text)
}
