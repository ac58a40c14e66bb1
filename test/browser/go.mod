module github.com/trainspan/trainspan/test/browser

go 1.26.0

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/trainspan/trainspan v0.0.0
)

require (
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)

replace github.com/trainspan/trainspan => ../..
