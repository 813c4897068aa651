// Package parquet reads what weir export writes with a module that others read Parquet with.
package parquet
