module github.com/weir-counter/weir/bench

go 1.26.0

replace github.com/weir-counter/weir => ../

require (
	github.com/VictoriaMetrics/metrics v1.35.1
	github.com/paulbellamy/ratecounter v0.2.0
	github.com/puzpuzpuz/xsync/v4 v4.5.0
	github.com/weir-counter/weir v0.0.0-00010101000000-000000000000
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/valyala/fastrand v1.1.0 // indirect
	github.com/valyala/histogram v1.2.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
