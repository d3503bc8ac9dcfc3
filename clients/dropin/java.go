package main

import (
	"context"
	"path/filepath"
)

// offline keeps Maven from asking its registry again.
const offline = "-o"

func fetchJava(w *workshop, _ *suite) error {
	if w.installed["java"] {
		return nil
	}
	dir, err := w.path("java")
	if err != nil {
		return err
	}
	changed, err := w.lay("java", dir)
	if err != nil {
		return err
	}
	compile := []string{"-B", "-q", "-ntp", "test-compile", "surefire:test", "-DskipTests"}
	if !changed && w.install(dir, "mvn", append(compile, offline)...) == nil {
		w.installed["java"] = true
		return nil
	}
	if err := w.install(dir, "mvn", compile...); err != nil {
		return err
	}
	// The runner fetches its provider when it first finds a test.
	if err := w.install(dir, "mvn", "-B", "-q", "-ntp", "surefire:test", "-Dtest=InstalledTest"); err != nil {
		return err
	}
	w.installed["java"] = true
	return nil
}

func runJava(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	dir, err := w.path("java")
	if err != nil {
		return result{}, err
	}
	test := s.tests[0]
	return reported(filepath.Join(dir, "target", "surefire-reports", "TEST-"+test+".xml"), func() ([]byte, error) {
		return w.test(ctx, dir, environment(t.addr), "mvn", "-B", "-q", "-ntp", offline, "surefire:test", "-Dtest="+test)
	})
}
