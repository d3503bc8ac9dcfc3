package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// apply returns the file that the edit is in, and its mutated text. root is the
// module's directory.
func (m *Mutation) apply(root string) (file string, mutated []byte, err error) {
	pkg, err := build.ImportDir(filepath.Join(root, m.Package), 0)
	if err != nil {
		return "", nil, err
	}
	find := tokens([]byte(m.Find))
	declared, found := false, 0
	for _, name := range pkg.GoFiles {
		name = filepath.Join(pkg.Dir, name)
		source, err := os.ReadFile(name)
		if err != nil {
			return "", nil, err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		if err != nil {
			return "", nil, err
		}
		for _, node := range declarations(parsed, m.Decl) {
			declared = true
			begin, end := node.Pos()-parsed.FileStart, node.End()-parsed.FileStart
			for _, at := range places(tokens(source[begin:end]), find) {
				found++
				last := at[len(at)-1]
				file, mutated = name, slices.Concat(
					source[:int(begin)+at[0].offset], m.fill(find, at), source[int(begin)+last.offset+len(last.text):])
			}
		}
	}
	switch {
	case !declared:
		return "", nil, fmt.Errorf("%s declares no %s", m.Package, m.Decl)
	case found != 1:
		return "", nil, fmt.Errorf("found %d times, want once: %s", found, m.Find)
	}
	return file, mutated, nil
}

// declarations returns the declarations of a name in a file.
func declarations(file *ast.File, name string) []ast.Node {
	var all []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		named := false
		switch n := n.(type) {
		case *ast.File, *ast.GenDecl:
			return true
		case *ast.FuncDecl:
			named = receiver(n)+n.Name.Name == name
		case *ast.TypeSpec:
			named = n.Name.Name == name
		case *ast.ValueSpec:
			named = slices.ContainsFunc(n.Names, func(id *ast.Ident) bool { return id.Name == name })
		}
		if named {
			all = append(all, n)
		}
		return false
	})
	return all
}

// receiver returns "T." for a method of T or *T, and "" for a function.
func receiver(f *ast.FuncDecl) string {
	name := ""
	if f.Recv != nil {
		ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && name == "" {
				name = id.Name + "." // and what follows are type parameters
			}
			return true
		})
	}
	return name
}

// anyToken is the token of a pattern that stands for any one token.
const anyToken = "…"

// piece is a token and its place in the source.
type piece struct {
	text   string
	offset int
}

// tokens returns the tokens of a source, without comments and without the
// semicolons that line breaks stand for.
func tokens(source []byte) []piece {
	file := token.NewFileSet().AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	var all []piece
	for {
		switch pos, tok, text := s.Scan(); {
		case tok == token.EOF:
			return all
		case text != "\n":
			all = append(all, piece{cmp.Or(text, tok.String()), file.Offset(pos)})
		}
	}
}

// places returns the parts of text that pattern matches.
func places(text, pattern []piece) [][]piece {
	var all [][]piece
	for i := range len(text) - len(pattern) + 1 {
		part := text[i : i+len(pattern)]
		if slices.EqualFunc(part, pattern, func(a, b piece) bool { return b.text == anyToken || a.text == b.text }) {
			all = append(all, part)
		}
	}
	return all
}

// fill returns m.Replace with the tokens that the pattern's … stand for in place
// of its own, in their order.
func (m *Mutation) fill(pattern, found []piece) []byte {
	text := m.Replace
	for i, p := range pattern {
		if p.text == anyToken {
			text = strings.Replace(text, anyToken, found[i].text, 1)
		}
	}
	return []byte(text)
}
