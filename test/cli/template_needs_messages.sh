# SPDX-License-Identifier: Apache-2.0
$GPUHOURS template --template chatml
