module driver

go 1.24

require github.com/SchwarzDigits/hypermatch/v2 v2.0.0
