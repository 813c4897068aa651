package client

const MaxSumKeyBytes = maxSumKeyBytes // for tests
