package main

import (
	"context"
	"os"
	"path/filepath"
)

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
		w.installed["python"] = true
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

func runPython(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	dir, err := w.path("python")
	if err != nil {
		return result{}, err
	}
	report := filepath.Join(dir, "report.xml")
	args := []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", report}
	if s.plugin != "" {
		args = append(args, "-p", s.plugin)
	}
	env := append(append(environment(t.addr), "PYTHONPATH="+dir), s.env...)
	return reported(report, func() ([]byte, error) {
		return w.test(ctx, filepath.Join(dir, s.tests[0]), env, filepath.Join(dir, ".venv", "bin", "python"), append(args, s.tests[1:]...)...)
	})
}
