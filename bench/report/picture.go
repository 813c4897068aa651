package main

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"os"
	"strconv"
	"strings"
)

// pair is a row of the first table as it is drawn.
type pair struct {
	What, Other   string
	Weir, Others  string // with units
	WeirW, OtherW int    // lengths of the bars
	Y             int
}

const (
	barWidth  = 440 // of the longer bar of a pair
	rowHeight = 64
)

// drawPicture draws the first table of a page, a pair of bars for each row: shorter is better.
func drawPicture(page, picture string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	pairs, err := readGlance(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	var b bytes.Buffer
	if err := pictureOf.Execute(&b, map[string]any{"Pairs": pairs, "Height": len(pairs)*rowHeight + 8}); err != nil {
		return err
	}
	return os.WriteFile(picture, b.Bytes(), 0o644)
}

// readGlance reads the table that writeGlance wrote.
func readGlance(page string) (pairs []pair, err error) {
	_, rows, found := strings.Cut(page, glanceHead)
	if !found {
		return nil, errors.New("no first table: write the page with make bench")
	}
	for line := range strings.Lines(rows) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		if len(cells) != 4 {
			return nil, fmt.Errorf("not a row of the first table: %s", line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		weir, err := amount(cells[1])
		if err != nil {
			return nil, err
		}
		others, err := amount(cells[2])
		if err != nil {
			return nil, err
		}
		length := func(v float64) int { return max(2, int(v/max(weir, others)*barWidth+0.5)) }
		pairs = append(pairs, pair{cells[0], cells[3], cells[1], cells[2], length(weir), length(others), len(pairs) * rowHeight})
	}
	if len(pairs) == 0 {
		return nil, errors.New("nothing in the first table: nothing of it was measured")
	}
	return pairs, nil
}

// amount is the number of a cell such as "1,234 ns".
func amount(cell string) (float64, error) {
	digits, _, _ := strings.Cut(cell, " ")
	v, err := strconv.ParseFloat(strings.ReplaceAll(digits, ",", ""), 64)
	if err == nil && v <= 0 {
		err = fmt.Errorf("%q is not a cost", cell)
	}
	return v, err
}

var pictureOf = template.Must(template.New("").Funcs(template.FuncMap{"add": func(a, b int) int { return a + b }}).Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 {{.Height}}" width="880" height="{{.Height}}" role="img">
<title>What Weir takes beside others; shorter is better</title>
<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.what { font-weight: 600; }
.weir { fill: #0969da; }
.other { fill: #8c959f; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.weir { fill: #4493f8; }
.other { fill: #6e7681; }
}
</style>
{{range .Pairs}}<g transform="translate(0 {{.Y}})">
<text class="what" x="4" y="16">{{.What}}</text>
<text x="232" y="34" text-anchor="end">Weir</text>
<rect class="weir" x="240" y="23" width="{{.WeirW}}" height="14" rx="2"/>
<text x="{{add 248 .WeirW}}" y="34">{{.Weir}}</text>
<text x="232" y="53" text-anchor="end">{{.Other}}</text>
<rect class="other" x="240" y="42" width="{{.OtherW}}" height="14" rx="2"/>
<text x="{{add 248 .OtherW}}" y="53">{{.Others}}</text>
</g>
{{end}}</svg>
`))
