module driver

go 1.24

require quamina.net/go/quamina v1.5.1
