"""The compiled part of matching: flat memory and kernels over it, from the reading of publications to the matches.

| file | what it does |
|---|---|
| `kernel`, `regions`, `memory`, `pool` | how kernels are compiled; regions of memory; blocks and lists in them |
| `counts`, `scratch` | what lies where in two of the regions |
| `hashing`, `attributes`, `keys` | names, values, texts, words, topics and tiles as keys |
| `conditions`, `filter_reading`, `given_rows` | a subscription as rows of conditions; reading plain filters into them |
| `programs`, `placing`, `ranges`, `fetching` | conjunctions, each found under one anchor; bitmaps for ranges |
| `json_reading`, `text_keys`, `topic_keys`, `tiles`, `reading` | publications as the facts and numbers they carry |
| `searching`, `verifying`, `reporting` | from facts to matches |
| `changing`, `gathering`, `hash_entries`, `finding` | what Python calls besides: changes, anchors, hashes, keys |
"""
