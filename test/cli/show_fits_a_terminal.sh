# No line of any list has more than 100 characters.
export LC_ALL=C.UTF-8
for catalog in models gpus nodes operations offers colocation; do
    $GPUHOURS show $catalog | grep -nE '^.{101,}$'
done
true
