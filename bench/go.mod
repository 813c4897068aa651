module github.com/weir-counter/weir/bench

go 1.26.0

replace github.com/weir-counter/weir => ../
