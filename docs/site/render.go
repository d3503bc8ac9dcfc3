package site

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// page is a page of the documentation.
type page struct {
	name     string // of its Markdown file
	Title    string
	HTML     template.HTML
	Contents []link // its headings of the second level
	sections []section
	root     ast.Node
	source   []byte
}

// link is an entry of the menu or of the table of contents. An entry without a Path is the
// title of a group of entries.
type link struct{ Path, Title string }

// section is what the search finds: the text below a heading.
type section struct {
	Path  string // with the anchor of the heading
	Title string // of the page and of the heading
	Text  string
}

// markdown reads what GitHub reads: the pages are read there, too. It passes no raw HTML on.
var markdown = goldmark.New(goldmark.WithExtensions(
	extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Linkify), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

type renderer struct {
	files  fs.FS
	source string
}

// render makes a page of Markdown.
func (r *renderer) render(name string, source []byte) (*page, error) {
	if after, ok := bytes.CutPrefix(source, []byte("---\n")); ok { // what programs want to know of a page
		_, source, _ = bytes.Cut(after, []byte("\n---\n"))
	}
	ctx := parser.NewContext(parser.WithIDs(anchors{}))
	p := &page{name: name, source: source, root: markdown.Parser().Parse(text.NewReader(source), parser.WithContext(ctx))}
	var comments []ast.Node
	var elsewhere []*ast.Image
	err := ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var err error
		switch n := n.(type) {
		case *ast.Heading:
			p.heading(n)
		case *ast.Link:
			n.Destination, err = r.target(name, n.Destination)
		case *ast.Image:
			if n.Destination, err = r.target(name, n.Destination); bytes.Contains(n.Destination, []byte(":")) {
				elsewhere = append(elsewhere, n)
			}
		case *ast.HTMLBlock: // comments for the programs that write parts of a page
			comments = append(comments, n)
		}
		return ast.WalkContinue, err
	})
	if err != nil {
		return nil, err
	}
	for _, n := range comments {
		n.Parent().RemoveChild(n.Parent(), n)
	}
	for _, n := range elsewhere { // a page loads nothing from elsewhere
		l := ast.NewLink()
		l.Destination = n.Destination
		n.Parent().ReplaceChild(n.Parent(), n, l)
		for c := n.FirstChild(); c != nil; c = n.FirstChild() {
			l.AppendChild(l, c)
		}
	}
	p.divide()
	var html bytes.Buffer
	if err := markdown.Renderer().Render(&html, source, p.root); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.HTML = template.HTML(html.String()) // safe: markdown writes no raw HTML
	return p, nil
}

// heading notes a heading. The first one is the page's title.
func (p *page) heading(n *ast.Heading) {
	title := plain(n, p.source)
	if p.Title == "" {
		p.Title = title
	}
	if n.Level == 2 {
		p.Contents = append(p.Contents, link{"#" + anchor(n), title})
	}
}

func anchor(n *ast.Heading) string {
	id, _ := n.AttributeString("id")
	b, _ := id.([]byte)
	return string(b)
}

// divide makes the sections of a page, one for each heading.
func (p *page) divide() {
	at := section{Path: address(p.name), Title: p.Title}
	var words strings.Builder
	done := func() {
		if at.Text = strings.Join(strings.Fields(words.String()), " "); at.Text != "" || strings.Contains(at.Path, "#") {
			p.sections = append(p.sections, at)
		}
		words.Reset()
	}
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			words.WriteString(plain(n, p.source) + " ")
			continue
		}
		if h.Level > 1 {
			done()
			at = section{Path: address(p.name) + "#" + anchor(h), Title: p.Title + " › " + plain(h, p.source)}
		}
	}
	done()
}

// plain returns the text of a node, with a space between its parts.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
				if n.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := 0; entering && i < n.Lines().Len(); i++ {
				line := n.Lines().At(i)
				b.Write(line.Value(source))
			}
		default:
			if !entering && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

// menu returns the links of a page below the headings they are under.
func (p *page) menu() []link {
	var menu []link
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				menu = append(menu, link{"", plain(n, p.source)})
			}
		case *ast.Link:
			if to := string(n.Destination); strings.HasSuffix(to, ".html") && !strings.Contains(to, ":") {
				menu = append(menu, link{to, plain(n, p.source)})
			}
		}
		return ast.WalkContinue, nil
	})
	return menu
}

// target returns where a link of a page leads to on the site.
func (r *renderer) target(from string, to []byte) ([]byte, error) {
	at, fragment, _ := strings.Cut(string(to), "#")
	if at == "" || strings.Contains(at, ":") {
		return to, nil
	}
	if fragment != "" {
		fragment = "#" + fragment
	}
	file := path.Join(path.Dir(from), at)
	if strings.HasPrefix(file, "../") || path.Ext(file) != ".md" && path.Dir(file) != "img" {
		return []byte(r.source + path.Join("docs", file) + fragment), nil
	}
	if _, err := fs.Stat(r.files, file); err != nil {
		return nil, fmt.Errorf("%s links to %s: %w", from, to, err)
	}
	if path.Ext(file) == ".md" {
		at = path.Join(path.Dir(at), path.Base(address(file)))
	}
	return []byte(at + fragment), nil
}

// anchors names headings as GitHub does. A page has no two headings of one name.
type anchors struct{}

func (anchors) Generate(title []byte, _ ast.NodeKind) []byte { return []byte(Anchor(string(title))) }
func (anchors) Put([]byte)                                   {}

// Anchor returns the name by which links find a heading.
func Anchor(title string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c):
			return unicode.ToLower(c)
		}
		return -1
	}, title)
}
